//! The reply of a node to a hello.
//!
//! ```text
//!   offset  size  field            meaning (little-endian)
//!        0     8  magic            see MAGIC
//!        8     2  major            version of the connection; in a refusal the newest of the node
//!       10     2  minor
//!       12     4  frame_bytes_max  largest accepted frame, with its header; 0 in a refusal
//!       16     2  code             0 if welcome, else a RefusalCode
//!       18     2  length           bytes of the text; at most TEXT_BYTES_MAX
//!       20        text             reason of a refusal for people: UTF-8
//! ```

use bucksaw_binary::ByteReader;

use crate::decode_progress::split_message;
use crate::fields::{check_magic, read_version, sanitize_text, text_length, truncate_text};
use crate::{DecodeProgress, MAGIC, RefusalCode, WireError, WireVersion};

/// The reply of a node to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloReply {
    /// The node accepts batches.
    Welcome {
        /// The version of the connection.
        version: WireVersion,
        /// The largest accepted frame, with its header, in bytes.
        frame_bytes_max: u32,
    },
    /// The node refuses the client; the connection ends.
    Refused {
        /// The reason for programs.
        code: RefusalCode,
        /// The reason for people.
        text: String,
    },
}

impl HelloReply {
    const FIXED_LEN: usize = 20;

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let (version, max, code, text) = match self {
            Self::Welcome { version, frame_bytes_max } => (*version, *frame_bytes_max, 0, ""),
            Self::Refused { code, text } => (WireVersion::NEWEST, 0, code.0, text.as_str()),
        };
        let (text, length) = truncate_text(text);
        let mut out = Vec::with_capacity(Self::FIXED_LEN + text.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&version.major.to_le_bytes());
        out.extend_from_slice(&version.minor.to_le_bytes());
        out.extend_from_slice(&max.to_le_bytes());
        out.extend_from_slice(&code.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out
    }

    /// Decodes the message at the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as the bytes show it.
    pub fn decode(bytes: &[u8]) -> Result<DecodeProgress<Self>, WireError> {
        check_magic(bytes)?;
        let read_fields =
            |reader: &mut ByteReader<'_>| Some((read_version(reader)?, reader.u32()?, reader.u16()?, reader.u16()?));
        split_message(bytes, Self::FIXED_LEN, read_fields, |(.., length)| text_length(*length))?.try_map(
            |((version, frame_bytes_max, code, _), text)| {
                if code != 0 {
                    return Ok(Self::Refused { code: RefusalCode(code), text: sanitize_text(text) });
                }
                // A node must not choose a version that the client did not offer.
                if WireVersion::negotiate(version) != Some(version) {
                    return Err(WireError::Version(version));
                }
                Ok(Self::Welcome { version, frame_bytes_max })
            },
        )
    }
}
