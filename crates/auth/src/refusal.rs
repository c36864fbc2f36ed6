//! Why a client is refused.

use std::time::Duration;

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthRefusalReason {
    /// It presents no credential.
    #[error("this node needs a credential: send a token, as in `Authorization: Bearer TOKEN`")]
    Missing,
    /// The credential is malformed or not known.
    #[error("the credential is not valid")]
    Unknown,
    /// The credential has expired.
    #[error("the credential has expired")]
    Expired,
    /// The credential lacks the scope.
    #[error("the credential lacks the scope of this call")]
    Scope,
    /// The credential may not use the tenant.
    #[error("the credential may not use this tenant")]
    Tenant,
}

impl AuthRefusalReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Missing, Self::Unknown, Self::Expired, Self::Scope, Self::Tenant];

    /// The value of the label `reason` of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Scope => "scope",
            Self::Tenant => "tenant",
        }
    }

    /// Whether the client is not recognised, so that another credential may help; else it is recognised and may not do what
    /// it asks for.
    pub const fn is_unauthenticated(self) -> bool {
        matches!(self, Self::Missing | Self::Unknown | Self::Expired)
    }
}

/// A refusal, which is to be reported after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// Why.
    pub reason: AuthRefusalReason,
    /// How long to wait before the client gets its answer.
    pub delay: Duration,
}
