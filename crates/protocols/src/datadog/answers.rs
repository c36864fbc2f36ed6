//! What a request is, and the answers.

use super::DatadogError;
use crate::{EventError, HttpAnswer};

/// What a request is, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatadogRequest {
    /// Its body is for [`DatadogDecoder`](super::DatadogDecoder).
    Logs,
    /// Its body is ignored.
    Answer(HttpAnswer),
}

/// Classifies a request by its method, in capitals, and its path without the query. Senders first check their API key; the
/// answer is that it is valid, because a node does not check keys.
pub fn route(method: &str, path: &str) -> DatadogRequest {
    let path = path.trim_end_matches('/');
    let is_logs = path == "/api/v2/logs" || path == "/v1/input" || path.starts_with("/v1/input/");
    DatadogRequest::Answer(match (method, path) {
        ("POST", _) if is_logs => return DatadogRequest::Logs,
        ("GET", "/api/v1/validate") => HttpAnswer::new(200, r#"{"valid":true}"#),
        _ if is_logs => refused(405, "Method Not Allowed", "send logs with POST"),
        _ => refused(404, "Not Found", "of Datadog's API, only /api/v2/logs is supported here"),
    })
}

/// `202`: all logs were taken.
pub fn accepted() -> HttpAnswer {
    HttpAnswer::new(202, "{}")
}

/// An error in Datadog's format.
pub fn refused(status: u16, title: &str, detail: &str) -> HttpAnswer {
    let (title, detail) = (serde_json::Value::from(title), serde_json::Value::from(detail));
    HttpAnswer::new(status, format!(r#"{{"errors":[{{"status":"{status}","title":{title},"detail":{detail}}}]}}"#))
}

impl DatadogError {
    /// The answer to the request.
    pub fn answer(&self) -> HttpAnswer {
        let (status, title) = match self {
            Self::Event { error: EventError::TooLong { .. }, .. } => (413, "Payload Too Large"),
            _ => (400, "Bad Request"),
        };
        refused(status, title, &self.to_string())
    }
}
