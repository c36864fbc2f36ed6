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

use crate::fields::{FieldReader, sanitize_text, truncate_text};
use crate::{DecodeProgress, MAGIC, RefusalCode, TEXT_BYTES_MAX, WireError, WireVersion};

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
        if !MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes)) {
            return Err(WireError::Magic);
        }
        let mut fields = FieldReader(bytes);
        let Some((version, frame_bytes_max, code, length)) = read_fixed(&mut fields) else {
            return Ok(DecodeProgress::Incomplete(Self::FIXED_LEN.saturating_sub(bytes.len())));
        };
        if usize::from(length) > TEXT_BYTES_MAX {
            return Err(WireError::TextTooLong(length));
        }
        let whole = Self::FIXED_LEN + usize::from(length);
        let Some(text) = fields.bytes(usize::from(length)) else {
            return Ok(DecodeProgress::Incomplete(whole - bytes.len()));
        };
        if code != 0 {
            return Ok(DecodeProgress::Complete(
                Self::Refused { code: RefusalCode(code), text: sanitize_text(text) },
                whole,
            ));
        }
        // A node must not choose a version that the client did not offer.
        if WireVersion::negotiate(version) != Some(version) {
            return Err(WireError::Version(version));
        }
        Ok(DecodeProgress::Complete(Self::Welcome { version, frame_bytes_max }, whole))
    }
}

fn read_fixed(fields: &mut FieldReader<'_>) -> Option<(WireVersion, u32, u16, u16)> {
    fields.bytes(MAGIC.len())?;
    let version = WireVersion { major: fields.u16()?, minor: fields.u16()? };
    Some((version, fields.u32()?, fields.u16()?, fields.u16()?))
}
