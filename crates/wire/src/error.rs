//! Why bytes are not what the protocol says.

use bucksaw_record::InvalidLabels;
use bucksaw_segment::FrameError;

use crate::{Hello, RefusalCode, TEXT_BYTES_MAX, Version};

/// A side that breaks the protocol; the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first bytes are not the protocol's.
    #[error("the other side does not speak this protocol: is that the address of a fast, durable or bulk port?")]
    Magic,
    /// The major version of the other side is not known here.
    #[error("unsupported protocol version {0}, newest supported is {known}: upgrade this side first", known = Version::NEWEST)]
    Version(Version),
    /// The labels are longer than labels can be.
    #[error("the labels take {0} bytes, more than {max}", max = Hello::LABELS_BYTES_MAX)]
    LabelsTooLong(u32),
    /// The labels are none.
    #[error("the labels are refused: {0}")]
    Labels(#[source] InvalidLabels),
    /// A frame is larger than the node takes.
    #[error("a frame of {found} bytes exceeds the limit of {max}")]
    FrameTooLong {
        /// Its bytes, the header included.
        found: u64,
        /// The greatest that is taken.
        max: u32,
    },
    /// A batch is not a whole, sound frame.
    #[error("a batch is damaged: {0}")]
    Frame(#[source] FrameError),
    /// A frame holds something else than records of stream 0.
    #[error("a batch is not a frame of records of the connection's one stream")]
    NotRecords,
    /// A text is longer than texts can be.
    #[error("a text of {0} bytes is longer than {TEXT_BYTES_MAX}")]
    TextTooLong(u16),
    /// The addresses of other nodes are too many, too long, or none.
    #[error("invalid redirect")]
    InvalidRedirect,
    /// A message of the node is of no known kind.
    #[error("a message of the unknown kind {0}")]
    UnknownKind(u8),
}

impl WireError {
    /// The code with which a hello is refused for this.
    #[must_use]
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Version(_) => RefusalCode::VERSION,
            Self::Labels(_) | Self::LabelsTooLong(_) => RefusalCode::LABELS,
            _ => RefusalCode::MALFORMED,
        }
    }
}
