//! Why a connection with the forward protocol ends.

use bucksaw_ingest::IngestError;
use bucksaw_protocols::fluent::FluentError;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum FluentEnd {
    #[error("the sender has closed its side, or the node stops")]
    Closed,
    #[error(transparent)]
    Message(#[from] FluentError),
    #[error("{0}")]
    Sender(&'static str),
    #[error("the queue refuses records: {0}")]
    Refused(#[from] IngestError),
    #[error("an acknowledgement cannot be sent")]
    Unreachable,
}
