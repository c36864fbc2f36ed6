//! Answers of calls.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bucksaw_protocols::otlp::OtlpStatus;
use http_body_util::{BodyExt as _, Full};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::message::PREFIX_BYTES;
use super::status::GrpcError;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The compressions of messages that are understood.
const ENCODINGS: HeaderValue = HeaderValue::from_static("identity,gzip,deflate,zstd,snappy");

/// What `grpc-message` escapes besides the bytes that are not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// The status of a call that succeeded.
pub(crate) const ANSWERED: (HeaderName, HeaderValue) = (STATUS, HeaderValue::from_static("0"));

/// Begins a message: appends its prefix, of which [`end_message`] sets the length.
pub(crate) fn begin_message(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; PREFIX_BYTES]);
}

/// Ends the one message of `framed`, which begins with its prefix.
pub(crate) fn end_message(mut framed: Vec<u8>) -> Bytes {
    let length = u32::try_from(framed.len().saturating_sub(PREFIX_BYTES)).unwrap_or(u32::MAX);
    if let Some(prefix) = framed.get_mut(1..PREFIX_BYTES) {
        prefix.copy_from_slice(&length.to_be_bytes());
    }
    framed.into()
}

/// The answer of a unary call that succeeded.
pub(crate) fn answer(message: &[u8]) -> Response {
    let mut framed = Vec::with_capacity(PREFIX_BYTES + message.len());
    begin_message(&mut framed);
    framed.extend_from_slice(message);
    let trailers = HeaderMap::from_iter([ANSWERED]);
    let body = Full::new(end_message(framed)).with_trailers(std::future::ready(Some(Ok(trailers))));
    let headers = [(header::CONTENT_TYPE, GRPC), (ACCEPT_ENCODING, ENCODINGS)];
    (headers, Body::new(body)).into_response()
}

/// The answer of a call that is refused before its answer has begun.
pub(crate) fn refusal(error: &GrpcError) -> Response {
    let headers = [(header::CONTENT_TYPE, GRPC), (ACCEPT_ENCODING, ENCODINGS)];
    let mut response = (headers, Body::empty()).into_response();
    response.headers_mut().extend(refusal_headers(error));
    response
}

/// The status of a call that is refused. The status with the delay of a retry is among the details.
pub(crate) fn refusal_headers(error: &GrpcError) -> HeaderMap {
    let GrpcError { code, message, retry_after_s } = error;
    let mut headers = HeaderMap::from_iter([(STATUS, HeaderValue::from(code.0))]);
    let escaped = utf8_percent_encode(message, ESCAPED).to_string();
    headers.extend(HeaderValue::try_from(escaped).ok().map(|message| (MESSAGE, message)));
    if retry_after_s.is_some() {
        let status = OtlpStatus { code: code.0, message: message.clone(), retry_after_s: *retry_after_s };
        let details = HeaderValue::try_from(STANDARD_NO_PAD.encode(status.protobuf()));
        headers.extend(details.ok().map(|details| (DETAILS, details)));
    }
    headers
}

/// The answer to a request that is not a call of gRPC.
pub(crate) fn not_grpc(status: StatusCode, message: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{message}\n")).into_response()
}
