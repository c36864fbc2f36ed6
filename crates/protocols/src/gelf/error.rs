//! Why a message is no event.

use crate::{EventError, HttpAnswer, InflateError};

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
    /// It is compressed, and cannot be decompressed.
    #[error("the compressed GELF message: {0}")]
    Inflate(#[source] InflateError),
    /// It is longer than the maximum of its decoder.
    #[error("the GELF message is longer than {0} bytes")]
    TooLong(usize),
    /// The sink refuses the event.
    #[error(transparent)]
    Event(#[from] EventError),
}

impl GelfError {
    /// The answer to a request over HTTP: `413` if the message is too long, else `400`.
    pub fn answer(&self) -> HttpAnswer {
        let is_long = matches!(self, Self::TooLong(_) | Self::Event(EventError::TooLong { .. }));
        HttpAnswer::new(if is_long { 413 } else { 400 }, format!("{self}\n"))
    }
}

impl From<InflateError> for GelfError {
    fn from(error: InflateError) -> Self {
        match error {
            InflateError::TooLong(bytes_max) => Self::TooLong(bytes_max),
            error => Self::Inflate(error),
        }
    }
}
