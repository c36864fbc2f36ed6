//! Splunk's HTTP event collector.

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_auth::AuthRefusalReason;
use bucksaw_ingest::Source;
use bucksaw_protocols::HttpAnswer;
use bucksaw_protocols::splunk_hec::{HecCode, HecDecoder, HecMetadata, HecRequest, answer_acks, route, success};

use super::request::{BodyPlan, SenderRequest, ingest, json_answer};
use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;

/// Leaves 53 bits of a number for an acknowledgement, as many as every decoder of JSON keeps.
const ACK_ID_SHIFT: u32 = 11;

/// The longest query for acknowledgements.
const ACKS_BYTES_MAX: usize = 64 << 10;

/// Any request below `/services/collector`.
pub(super) async fn call(State(app): State<App>, request: Request) -> Response {
    let request = match SenderRequest::new(request) {
        Ok(request) => request,
        Err(error) => return refusal(&error),
    };
    match route(request.method.as_str(), &request.path) {
        kind @ (HecRequest::Events | HecRequest::Raw) => events(&app, request, kind == HecRequest::Raw).await,
        HecRequest::Health => {
            let is_accepting = app.queue().check_accepting().is_ok();
            json_answer(if is_accepting { HecCode::Healthy } else { HecCode::Unhealthy }.answer())
        }
        HecRequest::Acks => acks(&app, request).await,
        HecRequest::Options { allowed } => [(header::ALLOW, allowed)].into_response(),
        HecRequest::WrongMethod => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        HecRequest::NotFound => ApiError::unknown_path().into_response(),
    }
}

async fn events(app: &App, request: SenderRequest, is_raw: bool) -> Response {
    let channel = channel(&request);
    let metadata = HecMetadata::from_query(&request.query);
    let decoded = ingest(app, BodyPlan::of(Source::Splunk), request, move |labels, body, sink| {
        let mut decoder = HecDecoder::new(labels, metadata);
        if is_raw { decoder.raw(body, sink) } else { decoder.events(body, sink) }
    });
    match decoded.await {
        // The records have their durability, so a query for this number is answered with true at once.
        // The number is random: a sequence would count the requests of other tenants.
        Ok(Ok(_)) => json_answer(success(channel.then(|| app.env.entropy.next_u64() >> ACK_ID_SHIFT))),
        Ok(Err(error)) => json_answer(error.answer()),
        Err(error) => refusal(&error),
    }
}

/// An error in Splunk's terms.
pub(crate) fn refusal(error: &ApiError) -> Response {
    let answer = match error.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => HecCode::ServerBusy.answer(),
        StatusCode::INTERNAL_SERVER_ERROR => HecCode::InternalServerError.answer(),
        status => {
            let text = serde_json::Value::from(error.message.as_str());
            let code = HecCode::InvalidDataFormat.number();
            HttpAnswer::new(status.as_u16(), format!(r#"{{"text":{text},"code":{code}}}"#))
        }
    };
    error.with_retry_after(json_answer(answer))
}

/// The refusal of a client that is not recognised or may not write. Splunk's clients distinguish only a missing token.
pub(crate) fn auth_refusal(reason: AuthRefusalReason) -> Response {
    json_answer(match reason {
        AuthRefusalReason::Missing => HecCode::TokenRequired.answer(),
        _ => HecCode::InvalidToken.answer(),
    })
}

/// A number is assigned only after the records of its request have their durability, so every number is acknowledged.
#[expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]
async fn acks(app: &App, request: SenderRequest) -> Response {
    if !channel(&request) {
        return json_answer(HecCode::DataChannelMissing.answer());
    }
    let read = tokio::time::timeout(app.config.body_idle_timeout, to_bytes(request.body, ACKS_BYTES_MAX));
    match read.await {
        Ok(Ok(body)) => json_answer(answer_acks(&body, |_| true)),
        _ => json_answer(HecCode::InvalidDataFormat.answer()),
    }
}

/// Whether a request names a channel, which requests an acknowledgement.
fn channel(request: &SenderRequest) -> bool {
    let of_query = Params::parse(request.query.as_bytes()).bytes("channel").is_some_and(|channel| !channel.is_empty());
    of_query || request.header("x-splunk-request-channel").is_some_and(|channel| !channel.is_empty())
}
