//! What a request is, and the answers.

use super::DatadogError;
use crate::EventError;

/// What a request is, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatadogRequest {
    /// Its body is for [`DatadogDecoder`](super::DatadogDecoder).
    Logs,
    /// Its body is ignored.
    Answer(DatadogAnswer),
}

/// An answer in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatadogAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The JSON.
    pub body: String,
}

/// Tells what a request is by its method, in capitals, and its path without the query. The check of an API key, which
/// senders make first, is answered as valid; who may send is not decided here.
pub fn route(method: &str, path: &str) -> DatadogRequest {
    let path = path.trim_end_matches('/');
    let is_logs = path == "/api/v2/logs" || path == "/v1/input" || path.starts_with("/v1/input/");
    DatadogRequest::Answer(match (method, path) {
        ("POST", _) if is_logs => return DatadogRequest::Logs,
        ("GET", "/api/v1/validate") => DatadogAnswer { status: 200, body: r#"{"valid":true}"#.to_owned() },
        _ if is_logs => DatadogAnswer::refused(405, "Method Not Allowed", "send logs with POST"),
        _ => DatadogAnswer::refused(404, "Not Found", "of Datadog's API, only /api/v2/logs is supported here"),
    })
}

impl DatadogAnswer {
    /// `202`: all logs were taken.
    pub fn accepted() -> Self {
        Self { status: 202, body: "{}".to_owned() }
    }

    /// An error in Datadog's format.
    pub fn refused(status: u16, title: &str, detail: &str) -> Self {
        let (title, detail) = (serde_json::Value::from(title), serde_json::Value::from(detail));
        let body = format!(r#"{{"errors":[{{"status":"{status}","title":{title},"detail":{detail}}}]}}"#);
        Self { status, body }
    }
}

impl From<&DatadogError> for DatadogAnswer {
    fn from(error: &DatadogError) -> Self {
        let (status, title) = match error {
            DatadogError::Event { error: EventError::TooLong { .. }, .. } => (413, "Payload Too Large"),
            _ => (400, "Bad Request"),
        };
        Self::refused(status, title, &error.to_string())
    }
}
