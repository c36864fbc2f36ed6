//! The client of a request or connection, on a node that may not authenticate.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::LabelScope;

use crate::{AccessScope, Grant, QuerySlot, TenantError};

/// The client of a request or connection, with the streams that it may use. The default is any client of a node that does not
/// authenticate: it may do everything. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClientAccess {
    grant: Option<Arc<Grant>>,
    scope: Option<LabelScope>,
}

impl ClientAccess {
    /// A client that was recognised, and the tenant that its request names.
    ///
    /// # Errors
    /// [`TenantError`].
    pub fn new(grant: Arc<Grant>, tenant: Option<&str>) -> Result<Self, TenantError> {
        let scope = grant.principal().label_scope(tenant)?;
        Ok(Self { grant: Some(grant), scope })
    }

    /// The streams that exist for the client; `None` for all.
    pub fn scope(&self) -> Option<&LabelScope> {
        self.scope.as_ref()
    }

    /// The right by which it was recognised; `None` on a node that does not authenticate.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.grant.as_ref()
    }

    /// The name of the principal; `None` on a node that does not authenticate.
    pub fn name(&self) -> Option<&str> {
        self.grant.as_ref().map(|grant| grant.principal().name.as_str())
    }

    /// Whether the client may make calls of this kind.
    pub fn has(&self, scope: AccessScope) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.principal().scopes.has(scope))
    }

    /// Whether it may see what concerns all tenants of a node, such as its metrics.
    pub fn may_see_nodes(&self) -> bool {
        let may_see = |grant: &Arc<Grant>| {
            let principal = grant.principal();
            let may_read = principal.scopes.has(AccessScope::Read) && principal.is_unlimited();
            principal.scopes.has(AccessScope::Admin) || may_read
        };
        self.grant.as_ref().is_none_or(may_see)
    }

    /// Whether the credential still has the same rights; see [`Grant::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.is_valid())
    }

    /// Counts accepted text, in bytes.
    pub fn count_bytes(&self, bytes: u64) {
        if let Some(grant) = &self.grant {
            grant.count_bytes(bytes);
        }
    }

    /// How long to wait before more text is accepted; zero if it is now.
    pub fn bytes_delay(&self) -> Duration {
        self.grant.as_ref().map_or(Duration::ZERO, |grant| grant.bytes_delay())
    }

    /// Counts a query until the slot is dropped; `Err` if the client has as many in flight as it may.
    #[expect(clippy::result_unit_err, reason = "there is one reason")]
    pub fn try_query(&self) -> Result<Option<QuerySlot>, ()> {
        self.grant.as_ref().map(|grant| grant.try_query().ok_or(())).transpose()
    }
}
