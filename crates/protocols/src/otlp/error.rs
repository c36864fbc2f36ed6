//! Why a body is no request.

use crate::ProtobufError;

/// Why an OTLP request is refused as a whole. The events before the error were given to the sink.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The protobuf body is damaged, or of another message.
    #[error("not an OTLP logs request: {0}")]
    Protobuf(#[from] ProtobufError),
    /// The JSON body is invalid, or of another message.
    #[error("not an OTLP logs request: {0}")]
    Json(#[from] serde_json::Error),
    /// A value contains values too deeply.
    #[error("a value in the OTLP logs request is nested more than {max} levels deep", max = super::NESTING_MAX)]
    Nesting,
}
