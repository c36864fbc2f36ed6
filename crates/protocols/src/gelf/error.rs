//! Why a message is no event.

use crate::EventError;

/// Why a GELF message is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GelfError {
    /// Not a JSON object.
    #[error("not a GELF message: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no text.
    #[error("the GELF message has no `short_message`")]
    NoMessage,
    /// The gzip or zlib data is damaged or cut off.
    #[error("the compressed GELF message is damaged: {0}")]
    Compression(#[source] std::io::Error),
    /// It is longer than the maximum of its decoder.
    #[error("the GELF message is longer than {0} bytes")]
    TooLong(usize),
    /// The sink refuses the event.
    #[error(transparent)]
    Event(#[from] EventError),
}
