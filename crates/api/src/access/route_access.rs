//! Who may make a call.

use bucksaw_auth::{AccessScope, ClientAccess};

/// Who may make a call, on a node that authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// Every client, without a credential.
    Public,
    /// As [`Self::Public`], except requests for JSON: senders to Elasticsearch first ask for its version there.
    Page,
    /// Every client with a valid credential.
    Any,
    /// Clients that may write records.
    Ingest,
    /// Clients that may read records.
    Read,
    /// Clients that may see what concerns all tenants of a node: administrators, and readers without labels.
    Nodes,
    /// Administrators.
    Admin,
}

impl RouteAccess {
    /// Whether a recognised client may make the call.
    pub(crate) fn allows(self, client: &ClientAccess) -> bool {
        match self {
            Self::Public | Self::Page | Self::Any => true,
            Self::Ingest => client.has(AccessScope::Ingest),
            Self::Read => client.has(AccessScope::Read),
            Self::Nodes => client.may_see_nodes(),
            Self::Admin => client.has(AccessScope::Admin),
        }
    }

    /// What the client lacks, for its refusal.
    pub(crate) const fn needed(self) -> &'static str {
        match self {
            Self::Public | Self::Page | Self::Any => "a valid credential",
            Self::Ingest => "a credential with the scope ingest",
            Self::Read => "a credential with the scope read",
            Self::Nodes => "a credential with the scope admin, or with the scope read and without labels",
            Self::Admin => "a credential with the scope admin",
        }
    }
}
