//! Why bodies are not accepted.

use bucksaw_ingest::IngestError;

/// Why a body was not accepted, or only a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BodyError {
    /// The reason.
    #[source]
    pub reason: BodyErrorReason,
    /// Records of the body that were accepted before, if that is known and of interest to the client.
    pub accepted: Option<u64>,
}

/// Why a body was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyErrorReason {
    /// The queue refuses it.
    #[error(transparent)]
    Refused(#[from] IngestError),
    /// The body breaks its format.
    #[error("{0}")]
    Invalid(String),
    /// It exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The client stopped sending.
    #[error("timed out while reading the body")]
    IdleTimeout,
    /// Memory for bodies is short.
    #[error("{0}")]
    MemoryShort(&'static str),
    /// A bug.
    #[error("internal error")]
    Internal,
}

impl<T: Into<BodyErrorReason>> From<T> for BodyError {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), accepted: None }
    }
}

impl BodyError {
    pub(super) fn with_accepted(self, accepted: u64) -> Self {
        Self { accepted: Some(accepted), ..self }
    }
}
