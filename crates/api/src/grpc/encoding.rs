//! The compression of messages.

use axum::http::HeaderMap;
use bucksaw_sources::http::Encoding;

use super::status::{GrpcCode, GrpcError};

/// The compression that `grpc-encoding` names, if any.
pub(crate) fn stated_encoding(headers: &HeaderMap) -> Result<Option<Encoding>, GrpcError> {
    let Some(stated) = headers.get("grpc-encoding") else { return Ok(None) };
    let encoding = stated.to_str().ok().and_then(|name| name.parse().ok()).ok_or_else(|| {
        let message = "the compression in grpc-encoding is not known: gzip, deflate, zstd and snappy are";
        GrpcError::new(GrpcCode::UNIMPLEMENTED, message)
    })?;
    Ok((encoding != Encoding::Identity).then_some(encoding))
}

/// The compression of a message with this flag.
pub(crate) fn message_encoding(is_compressed: bool, stated: Option<Encoding>) -> Result<Encoding, GrpcError> {
    match (is_compressed, stated) {
        (false, _) => Ok(Encoding::Identity),
        (true, Some(encoding)) => Ok(encoding),
        (true, None) => {
            let message = "the message is compressed, but grpc-encoding is missing";
            Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, message))
        }
    }
}
