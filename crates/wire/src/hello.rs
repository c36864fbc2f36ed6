//! The first message of a client.
//!
//! ```text
//!   offset  size  field    meaning (little-endian)
//!        0     8  magic    see MAGIC
//!        8     2  major    newest version of the client
//!       10     2  minor
//!       12     4  length   bytes of the labels; at most LABELS_BYTES_MAX
//!       16        labels   of the stream, as Labels::encode writes them
//! ```
//! Magic and version keep their places in every later version, so that any node can refuse any client with a reason.

use bucksaw_record::Labels;

use crate::fields::FieldReader;
use crate::{DecodeProgress, LABELS_BYTES_MAX, MAGIC, WireError, WireVersion};

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The newest version of the client.
    pub version: WireVersion,
    /// The labels of all records of the connection.
    pub labels: Labels,
}

impl Hello {
    /// Bytes before the labels.
    pub const FIXED_LEN: usize = 16;

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut labels = Vec::new();
        self.labels.encode(&mut labels);
        let mut out = Vec::with_capacity(Self::FIXED_LEN + labels.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.major.to_le_bytes());
        out.extend_from_slice(&self.version.minor.to_le_bytes());
        // `LABELS_BYTES_MAX` bounds the length.
        out.extend_from_slice(&u32::try_from(labels.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.append(&mut labels);
        out
    }

    /// Decodes the message at the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as the bytes show it; an unsupported version before the labels have arrived.
    pub fn decode(bytes: &[u8]) -> Result<DecodeProgress<Self>, WireError> {
        if !MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes)) {
            return Err(WireError::Magic);
        }
        let mut fields = FieldReader(bytes);
        let Some((version, length)) = read_fixed(&mut fields) else {
            return Ok(DecodeProgress::Incomplete(Self::FIXED_LEN.saturating_sub(bytes.len())));
        };
        WireVersion::negotiate(version).ok_or(WireError::Version(version))?;
        if length as usize > LABELS_BYTES_MAX {
            return Err(WireError::LabelsTooLong(length));
        }
        let whole = Self::FIXED_LEN + length as usize;
        let Some(labels) = fields.bytes(length as usize) else {
            return Ok(DecodeProgress::Incomplete(whole - bytes.len()));
        };
        let labels = Labels::decode(labels).map_err(WireError::Labels)?;
        Ok(DecodeProgress::Complete(Self { version, labels }, whole))
    }
}

fn read_fixed(fields: &mut FieldReader<'_>) -> Option<(WireVersion, u32)> {
    fields.bytes(MAGIC.len())?;
    let version = WireVersion { major: fields.u16()?, minor: fields.u16()? };
    Some((version, fields.u32()?))
}
