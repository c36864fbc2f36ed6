//! Parameters and headers of every request with records, and its body.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bucksaw_ingest::Durability;
use bucksaw_record::Labels;
use bucksaw_sources::http::{BodyChunks, Encoding};
use http_body_util::BodyExt as _;

use crate::error::ApiError;
use crate::params::Params;

const KEY_BYTES_MAX: usize = 256;

/// A body as its frames arrive.
pub(crate) struct BodyFrames(pub(crate) Body);

impl BodyChunks for BodyFrames {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, String>> {
        let frame = self.0.frame().await?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()).map_err(|error| error.to_string()))
    }
}

pub(crate) fn durability_param(params: &Params) -> Result<Durability, ApiError> {
    params.text("durability")?.unwrap_or("fast").parse().map_err(ApiError::bad_request)
}

/// The media type without its parameters, in small letters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let media_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

pub(crate) fn content_encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else { return Ok(Encoding::Identity) };
    let encoding = encoding.to_str().map_err(|_| ApiError::bad_request("Content-Encoding is not text"))?;
    encoding.parse().map_err(|error: String| ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

/// The labels of the parameter `label`, and another one.
pub(crate) fn label_params(params: &Params, other: Option<(&str, &str)>) -> Result<Labels, ApiError> {
    labels("label", params.all("label"), other)
}

/// Labels that a client states as `k=v`, and another one. Errors start with `name`.
pub(crate) fn labels<'a>(
    name: &str,
    stated: impl Iterator<Item = &'a [u8]>,
    other: Option<(&'a str, &'a str)>,
) -> Result<Labels, ApiError> {
    let pair = |label| {
        let text: &str = str::from_utf8(label).map_err(|_| ApiError::bad_request(format!("{name}: not UTF-8")))?;
        text.split_once('=').ok_or_else(|| ApiError::bad_request(format!("{name}: `{text}` is not k=v")))
    };
    Labels::new(stated.map(pair).chain(other.map(Ok)).collect::<Result<Vec<_>, _>>()?)
        .map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, ApiError> {
    let key = headers.get("idempotency-key").map(HeaderValue::as_bytes).filter(|key| !key.is_empty());
    if key.is_some_and(|key| key.len() > KEY_BYTES_MAX) {
        return Err(ApiError::bad_request(format!("Idempotency-Key is longer than {KEY_BYTES_MAX} bytes")));
    }
    Ok(key)
}
