//! Violations of the protocol.

use bucksaw_record::InvalidLabels;
use bucksaw_segment::FrameError;

use crate::{LABELS_BYTES_MAX, REPORT_BYTES_MAX, RefusalCode, TEXT_BYTES_MAX, WireVersion};

/// Bytes that violate the protocol; the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The first bytes are not the protocol's.
    #[error("the other side does not speak this protocol: is that the address of a fast, durable or bulk port?")]
    Magic,
    /// The major version of the other side is not supported.
    #[error("unsupported protocol version {0}, newest supported is {known}: upgrade this side first", known = WireVersion::NEWEST)]
    Version(WireVersion),
    /// The labels exceed their limit.
    #[error("the labels take {0} bytes, more than {max}", max = LABELS_BYTES_MAX)]
    LabelsTooLong(u32),
    /// The labels are malformed.
    #[error("the labels are refused: {0}")]
    Labels(#[source] InvalidLabels),
    /// A frame exceeds the limit of the node.
    #[error("a frame of {found} bytes exceeds the limit of {max}")]
    FrameTooLong {
        /// The bytes of the frame, with its header.
        found: u64,
        /// The limit of the node.
        max: u32,
    },
    /// A batch is not an intact frame.
    #[error("a batch is damaged: {0}")]
    Frame(#[source] FrameError),
    /// A frame contains something other than records of stream 0.
    #[error("a batch is not a frame of records of the connection's one stream")]
    NotRecords,
    /// A text exceeds its limit.
    #[error("a text of {0} bytes is longer than {TEXT_BYTES_MAX}")]
    TextTooLong(u16),
    /// A report exceeds its limit.
    #[error("a report of {0} bytes is longer than {REPORT_BYTES_MAX}")]
    ReportTooLong(u32),
    /// A report ends early, or has a text that is too long.
    #[error("invalid report")]
    InvalidReport,
    /// A token is empty, too long, or not UTF-8.
    #[error("invalid token")]
    InvalidToken,
    /// A redirect has no address, too many, or a malformed one.
    #[error("invalid redirect")]
    InvalidRedirect,
    /// A message of the node has an unknown kind.
    #[error("a message of the unknown kind {0}")]
    UnknownKind(u8),
}

impl WireError {
    /// The code of the refusal that a node sends for this error.
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Version(_) => RefusalCode::VERSION,
            Self::Labels(_) | Self::LabelsTooLong(_) => RefusalCode::LABELS,
            _ => RefusalCode::MALFORMED,
        }
    }
}
