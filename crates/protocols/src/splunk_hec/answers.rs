//! What a request is, and the answers.

use super::{HecCode, HecError};
use crate::HttpAnswer;

/// What a request is, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HecRequest {
    /// Its body is for [`HecDecoder::events`](super::HecDecoder::events).
    Events,
    /// Its body is for [`HecDecoder::raw`](super::HecDecoder::raw).
    Raw,
    /// The answer is [`HecCode::Healthy`] or [`HecCode::Unhealthy`].
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

/// Classifies a request by its method, in capitals, and its path without the query.
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

/// All events were taken. `ack_id` is stated if the request names a channel.
pub fn success(ack_id: Option<u64>) -> HttpAnswer {
    let ack = ack_id.map(|id| format!(r#","ackId":{id}"#));
    answer(HecCode::Success, &ack.unwrap_or_default())
}

impl HecCode {
    /// The answer with this code.
    pub fn answer(self) -> HttpAnswer {
        answer(self, "")
    }
}

impl HecError {
    /// The answer to the request.
    pub fn answer(&self) -> HttpAnswer {
        let number = self.event.map(|number| format!(r#","invalid-event-number":{number}"#));
        answer(self.code, &number.unwrap_or_default())
    }
}

fn answer(code: HecCode, end: &str) -> HttpAnswer {
    HttpAnswer::new(code.status(), format!(r#"{{"text":"{}","code":{}{end}}}"#, code.text(), code.number()))
}
