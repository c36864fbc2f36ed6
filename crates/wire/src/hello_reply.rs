//! How a node answers a hello.
//!
//! ```text
//!   offset  size  field            meaning (little-endian)
//!        0     8  magic            see MAGIC
//!        8     2  major            version that is spoken; in a refusal the newest that the node knows
//!       10     2  minor
//!       12     4  frame_bytes_max  greatest frame that is taken, its header included; 0 in a refusal
//!       16     2  code             0 welcome, else why the client is refused, see Code
//!       18     2  length           bytes of the text; at most TEXT_BYTES_MAX
//!       20        text             of a refusal, for people: UTF-8
//! ```

use crate::fields::{FieldReader, sanitize_text, truncate_text};
use crate::{DecodeProgress, MAGIC, TEXT_BYTES_MAX, Version, WireError};

/// Why a client is refused, for programs. A newer node may know more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCode(pub u16);

impl RefusalCode {
    /// The major version is not known.
    pub const VERSION: Self = Self(1);
    /// The labels cannot be labels.
    pub const LABELS: Self = Self(2);
    /// The hello is none.
    pub const MALFORMED: Self = Self(3);
    /// The node has too much to do. A [`Told::Elsewhere`](crate::Told::Elsewhere) follows, and then the connection ends.
    pub const BUSY: Self = Self(4);
}

/// A node's answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloReply {
    /// Batches may come.
    Welcome {
        /// The version that is spoken.
        version: Version,
        /// The greatest frame that is taken, its header included.
        frame_bytes_max: u32,
    },
    /// They may not; the connection ends.
    Refused {
        /// Why, for programs.
        code: RefusalCode,
        /// Why, for people.
        text: String,
    },
}

impl HelloReply {
    const FIXED_LEN: usize = 20;

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (version, max, code, text) = match self {
            Self::Welcome { version, frame_bytes_max } => (*version, *frame_bytes_max, 0, ""),
            Self::Refused { code, text } => (Version::NEWEST, 0, code.0, text.as_str()),
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

    /// Reads the message from the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as it shows.
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
        // A node may not choose a version that the client did not offer.
        let spoken = Version::negotiate(version)?;
        if spoken != version {
            return Err(WireError::Version(version));
        }
        Ok(DecodeProgress::Complete(Self::Welcome { version, frame_bytes_max }, whole))
    }
}

fn read_fixed(fields: &mut FieldReader<'_>) -> Option<(Version, u32, u16, u16)> {
    fields.bytes(MAGIC.len())?;
    let version = Version { major: fields.u16()?, minor: fields.u16()? };
    Some((version, fields.u32()?, fields.u16()?, fields.u16()?))
}
