//! Why a body is no push request.

use crate::ProtobufError;

/// Why a push request is refused as a whole. The events before the error were given to the sink.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LokiError {
    /// The protobuf body is damaged, or of another message.
    #[error("not a push request of Loki: {0}")]
    Protobuf(#[from] ProtobufError),
    /// The JSON body is invalid, or of another message.
    #[error("not a push request of Loki: {0}")]
    Json(#[from] serde_json::Error),
    /// The labels of a stream have another form than `{name="value"}`.
    #[error("invalid labels of a stream at byte {at}: write {{name=\"value\", …}}: {text}")]
    Labels {
        /// The offset of the error.
        at: usize,
        /// The start of the labels.
        text: String,
    },
    /// A time in JSON is no number of nanoseconds.
    #[error("`{0}` is not a time in nanoseconds since 1970")]
    Time(String),
}
