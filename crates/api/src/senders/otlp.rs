//! OTLP logs over HTTP.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bucksaw_ingest::Source;
use bucksaw_protocols::otlp::{ExportAnswer, OtlpDecoder, OtlpStatus};

use super::request::{BodyPlan, SenderRequest, answer, ingest};
use crate::app::App;
use crate::error::ApiError;
use crate::grpc::GrpcCode;
use crate::ingest_params::media_type;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// `POST /v1/logs`. The answer has the encoding of the request.
pub(super) async fn export(State(app): State<App>, request: Request) -> Response {
    let request = match SenderRequest::new(request) {
        Ok(request) => request,
        Err(error) => return refused(PROTOBUF, &error),
    };
    let media_type = match media_type(&request.headers).as_deref() {
        Some(JSON) => JSON,
        Some(PROTOBUF | "application/protobuf") => PROTOBUF,
        other => {
            let other = other.unwrap_or("missing");
            let message = format!("Content-Type is {other}: send {PROTOBUF} or {JSON}");
            return refused(PROTOBUF, &ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
    };
    let is_json = media_type == JSON;
    let decoded = ingest(&app, BodyPlan::of(Source::Otlp), request, move |labels, body, sink| {
        let mut decoder = OtlpDecoder::new(labels);
        if is_json { decoder.json(body, sink) } else { decoder.protobuf(body, sink) }
    });
    match decoded.await {
        Ok(Ok(decoded)) => {
            let export = ExportAnswer(&decoded);
            answer(200, media_type, if is_json { export.json() } else { export.protobuf() })
        }
        Ok(Err(error)) => refused(media_type, &ApiError::bad_request(error.to_string())),
        Err(error) => refused(media_type, &error),
    }
}

/// An error in OTLP's terms, in the encoding of the request.
pub(crate) fn refusal(error: &ApiError, request: &HeaderMap) -> Response {
    refused(if media_type(request).as_deref() == Some(JSON) { JSON } else { PROTOBUF }, error)
}

/// A `google.rpc.Status`. Senders repeat requests that get 429, 502, 503 or 504, after the seconds of `Retry-After`.
fn refused(media_type: &'static str, error: &ApiError) -> Response {
    let GrpcCode(code) = match error.status {
        // The HTTP status is specific enough.
        StatusCode::UNSUPPORTED_MEDIA_TYPE => GrpcCode::INVALID_ARGUMENT,
        status => GrpcCode::of(status),
    };
    let status = OtlpStatus { code, message: error.message.clone(), retry_after_s: error.retry_after_s };
    let body = if media_type == JSON { status.json() } else { status.protobuf() };
    error.with_retry_after(answer(error.status.as_u16(), media_type, body))
}

/// The answer to any other request on the listener for OTLP.
pub(crate) async fn unknown_path() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "this port takes POST /v1/logs, logs by OTLP: traces and metrics are not stored",
    )
}
