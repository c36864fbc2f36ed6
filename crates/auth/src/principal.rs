//! Who a credential proves a client to be.

use bucksaw_record::{LabelScope, Labels, Millis};

use crate::{AccessScope, AccessScopes};

/// The label whose values are tenants, if a credential may use several.
pub const TENANT_LABEL: &str = "tenant";

/// Who a client is, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name, for logs and the audit trail.
    pub name: String,
    /// What it may do.
    pub scopes: AccessScopes,
    /// The labels that all records have which it writes or reads; empty for no limit.
    pub labels: Labels,
    /// The tenants of which a request chooses one; empty if the principal is not limited to some.
    pub tenants: Vec<String>,
    /// The time from which the credential is refused.
    pub expires: Option<Millis>,
    /// How much it may use.
    pub limits: ClientLimits,
    /// Whether a sender of Fluentd's protocol may prove it by name and password.
    pub may_use_fluentd: bool,
}

/// How much a principal may use of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Accepted text, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Queries in flight.
    pub queries_max: Option<u32>,
}

/// Why a request cannot use the tenant that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// The credential may not use it.
    #[error("the credential may not use this tenant")]
    Forbidden,
    /// The credential may use several, and the request names none.
    #[error("the credential may use several tenants: name one in the header X-Scope-OrgID")]
    Unnamed,
    /// The name is no value of a label.
    #[error("this is not the name of a tenant")]
    Invalid,
}

impl Principal {
    /// The scope of a request that names this tenant, or none; `None` for all streams, the reserved ones included, which only
    /// administrators without labels have.
    ///
    /// A principal without a limit may name any tenant, which limits the request to it. One whose labels have no tenant may
    /// narrow them.
    ///
    /// # Errors
    /// [`TenantError`].
    pub fn label_scope(&self, tenant: Option<&str>) -> Result<Option<LabelScope>, TenantError> {
        let bound = self.labels.get(TENANT_LABEL);
        let tenant = match (tenant, bound, self.tenants.as_slice()) {
            (Some(tenant), Some(bound), _) if tenant != bound => return Err(TenantError::Forbidden),
            (_, Some(_), _) => None,
            (Some(tenant), None, []) => Some(tenant),
            (Some(tenant), None, allowed) if allowed.iter().any(|name| name == tenant) => Some(tenant),
            (Some(_), None, _) => return Err(TenantError::Forbidden),
            (None, None, []) => None,
            (None, None, [only]) => Some(only.as_str()),
            (None, None, _) => return Err(TenantError::Unnamed),
        };
        let labels = match tenant {
            None => self.labels.clone(),
            Some("") => return Err(TenantError::Invalid),
            Some(tenant) => {
                let pairs = self.labels.iter().chain([(TENANT_LABEL, tenant)]);
                Labels::new(pairs).map_err(|_| TenantError::Invalid)?
            }
        };
        let has_all = labels.is_empty() && self.scopes.has(AccessScope::Admin);
        Ok((!has_all).then(|| LabelScope::new(labels)))
    }

    /// Whether it may read and write records of any labels.
    pub fn is_unlimited(&self) -> bool {
        self.labels.is_empty() && self.tenants.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenant_of_a_request_is_one_that_the_credential_may_use() {
        let check = |labels: &str, tenants: &[&str], named: Option<&str>, want: Result<&str, TenantError>| {
            let principal = Principal {
                name: "x".to_owned(),
                scopes: AccessScopes::default(),
                labels: Labels::parse(labels).unwrap(),
                tenants: tenants.iter().map(|name| (*name).to_owned()).collect(),
                expires: None,
                limits: ClientLimits::default(),
                may_use_fluentd: false,
            };
            let got = principal.label_scope(named);
            let want = want.map(|labels| Some(LabelScope::new(Labels::parse(labels).unwrap())));
            assert_eq!(got, want, "{labels} {tenants:?} {named:?}");
        };
        let (forbidden, unnamed, invalid) =
            (Err(TenantError::Forbidden), Err(TenantError::Unnamed), Err(TenantError::Invalid));
        check("", &[], None, Ok(""));
        check("", &[], Some("a"), Ok("tenant=a"));
        check("", &[], Some(""), invalid);
        check("", &[], Some(&"x".repeat(2_000)), invalid);
        check("tenant=a", &[], None, Ok("tenant=a"));
        check("tenant=a", &[], Some("a"), Ok("tenant=a"));
        check("tenant=a", &[], Some("b"), forbidden);
        check("tenant=a", &[], Some(""), forbidden);
        check("team=x", &[], Some("a"), Ok("team=x,tenant=a"));
        check("", &["a"], None, Ok("tenant=a"));
        check("", &["a", "b"], None, unnamed);
        check("team=x", &["a", "b"], Some("b"), Ok("team=x,tenant=b"));
        check("", &["a", "b"], Some("c"), forbidden);
        check("", &["a", "b"], Some("a|b"), forbidden);
        check("", &["a"], Some(""), forbidden);
    }

    #[test]
    fn only_administrators_without_labels_have_the_reserved_streams() {
        let check = |scopes: &str, labels: &str, want: Option<&str>| {
            let principal = Principal {
                name: "x".to_owned(),
                scopes: scopes.split(',').map(|name| name.parse::<AccessScope>().unwrap()).collect(),
                labels: Labels::parse(labels).unwrap(),
                tenants: Vec::new(),
                expires: None,
                limits: ClientLimits::default(),
                may_use_fluentd: false,
            };
            let want = want.map(|labels| LabelScope::new(Labels::parse(labels).unwrap()));
            assert_eq!(principal.label_scope(None).unwrap(), want, "{scopes} {labels}");
        };
        check("read,admin", "", None);
        check("read", "", Some(""));
        check("read,admin", "tenant=a", Some("tenant=a"));
    }
}
