//! What a request is, and the answers.

use super::{HecCode, HecError};

/// What a request is, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HecRequest {
    /// Its body is for [`HecDecoder::events`](super::HecDecoder::events).
    Events,
    /// Its body is for [`HecDecoder::raw`](super::HecDecoder::raw).
    Raw,
    /// It asks whether the server takes events: [`HecCode::Healthy`] or [`HecCode::Unhealthy`].
    Health,
    /// Its body is for [`answer_acks`](super::answer_acks).
    Acks,
    /// It asks which methods the path has: status `200`. Docker checks a connection in this way.
    Options {
        /// The method of the path.
        allowed: &'static str,
    },
    /// The method is not allowed: status `405`.
    WrongMethod,
    /// The path is not one of the collector: status `404`.
    NotFound,
}

/// Tells what a request is by its method, in capitals, and its path without the query.
pub fn route(method: &str, path: &str) -> HecRequest {
    let Some(endpoint) = path.strip_prefix("/services/collector") else { return HecRequest::NotFound };
    let endpoint = endpoint.trim_end_matches('/');
    let (allowed, request) = match endpoint.strip_suffix("/1.0").unwrap_or(endpoint) {
        "" | "/event" => ("POST", HecRequest::Events),
        "/raw" => ("POST", HecRequest::Raw),
        "/ack" => ("POST", HecRequest::Acks),
        "/health" => ("GET", HecRequest::Health),
        _ => return HecRequest::NotFound,
    };
    match method {
        "OPTIONS" => HecRequest::Options { allowed },
        method if method == allowed => request,
        _ => HecRequest::WrongMethod,
    }
}

/// An answer in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HecAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The JSON.
    pub body: String,
}

impl HecAnswer {
    /// All events were taken. `ack_id` is stated if the request names a channel.
    pub fn success(ack_id: Option<u64>) -> Self {
        let ack = ack_id.map(|id| format!(r#","ackId":{id}"#));
        Self::with(HecCode::Success, &ack.unwrap_or_default())
    }

    fn with(code: HecCode, end: &str) -> Self {
        let body = format!(r#"{{"text":"{}","code":{}{end}}}"#, code.text(), code.number());
        Self { status: code.status(), body }
    }
}

impl From<HecCode> for HecAnswer {
    fn from(code: HecCode) -> Self {
        Self::with(code, "")
    }
}

impl From<&HecError> for HecAnswer {
    fn from(error: &HecError) -> Self {
        let number = error.event.map(|number| format!(r#","invalid-event-number":{number}"#));
        Self::with(error.code, &number.unwrap_or_default())
    }
}
