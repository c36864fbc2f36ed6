//! What the HTTP input of GELF answers.

use super::GelfError;
use crate::{EventError, InflateError};

/// An answer to `POST /gelf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GelfAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// Plain text; empty if all was taken.
    pub body: String,
}

impl GelfAnswer {
    /// `202`: the messages are taken.
    pub fn accepted() -> Self {
        Self { status: 202, body: String::new() }
    }

    /// The answer to a refused message: `413` if it is too long, else `400`.
    pub fn refused(error: &GelfError) -> Self {
        let is_long = matches!(
            error,
            GelfError::TooLong(_)
                | GelfError::Inflate(InflateError::TooLong(_))
                | GelfError::Event(EventError::TooLong { .. })
        );
        Self { status: if is_long { 413 } else { 400 }, body: format!("{error}\n") }
    }
}
