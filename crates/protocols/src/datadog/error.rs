//! Why a body is refused.

use crate::EventError;

/// Why a body is refused from one log on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatadogError {
    /// The body is not JSON, or not an object or an array of objects.
    #[error("the body is not a JSON object or an array of them: {0}")]
    Json(#[from] serde_json::Error),
    /// The sink refuses a log.
    #[error("log {number}: {error}")]
    Event {
        /// The number of the log, from 0.
        number: u64,
        /// Why.
        #[source]
        error: EventError,
    },
}
