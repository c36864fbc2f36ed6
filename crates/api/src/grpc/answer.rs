//! Answers of unary calls.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bucksaw_protocols::otlp::OtlpStatus;
use http_body_util::{BodyExt as _, Full};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

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

/// The answer of a call that succeeded.
pub(crate) fn answer(message: &[u8]) -> Response {
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(message);
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from(0))]);
    let body = Full::new(Bytes::from(framed)).with_trailers(std::future::ready(Some(Ok(trailers))));
    let headers = [(header::CONTENT_TYPE, GRPC), (ACCEPT_ENCODING, ENCODINGS)];
    (headers, Body::new(body)).into_response()
}

/// The answer of a call that is refused. The status with the delay of a retry is among the details.
pub(crate) fn refusal(error: &GrpcError) -> Response {
    let GrpcError { code, message, retry_after_s } = error;
    let headers = [(header::CONTENT_TYPE, GRPC), (ACCEPT_ENCODING, ENCODINGS), (STATUS, HeaderValue::from(code.0))];
    let mut response = (headers, Body::empty()).into_response();
    let escaped = utf8_percent_encode(message, ESCAPED).to_string();
    response.headers_mut().extend(HeaderValue::try_from(escaped).ok().map(|message| (MESSAGE, message)));
    if retry_after_s.is_some() {
        let status = OtlpStatus { code: code.0, message: message.clone(), retry_after_s: *retry_after_s };
        let details = HeaderValue::try_from(STANDARD_NO_PAD.encode(status.protobuf()));
        response.headers_mut().extend(details.ok().map(|details| (DETAILS, details)));
    }
    response
}

/// The answer to a request that is not a call of gRPC.
pub(crate) fn not_grpc(status: StatusCode, message: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{message}\n")).into_response()
}
