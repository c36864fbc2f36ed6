//! What a client says first.
//!
//! ```text
//!   offset  size  field    meaning (little-endian)
//!        0     8  magic    see MAGIC
//!        8     2  major    newest version that the client speaks
//!       10     2  minor
//!       12     4  length   bytes of the labels; at most LABELS_BYTES_MAX
//!       16        labels   of the stream, as Labels::encode writes them
//! ```
//! Magic and version stand where they are in every version to come, so that any node can refuse any client by name.

use bucksaw_record::Labels;

use crate::fields::FieldReader;
use crate::{DecodeProgress, MAGIC, Version, WireError};

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The newest version that the client speaks.
    pub version: Version,
    /// The labels of all records of the connection.
    pub labels: Labels,
}

impl Hello {
    /// Bytes before the labels.
    pub const FIXED_LEN: usize = 16;

    /// The most bytes that encoded labels can take.
    pub const LABELS_BYTES_MAX: usize = Labels::COUNT_MAX * (Labels::NAME_BYTES_MAX + Labels::VALUE_BYTES_MAX + 3);

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut labels = Vec::new();
        self.labels.encode(&mut labels);
        let mut out = Vec::with_capacity(Self::FIXED_LEN + labels.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.major.to_le_bytes());
        out.extend_from_slice(&self.version.minor.to_le_bytes());
        // The constant above bounds it.
        out.extend_from_slice(&u32::try_from(labels.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.append(&mut labels);
        out
    }

    /// Reads the message from the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as it shows: before the labels are there when the version is not known.
    pub fn decode(bytes: &[u8]) -> Result<DecodeProgress<Self>, WireError> {
        if !MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes)) {
            return Err(WireError::Magic);
        }
        let mut fields = FieldReader(bytes);
        let Some((version, length)) = read_fixed(&mut fields) else {
            return Ok(DecodeProgress::Incomplete(Self::FIXED_LEN.saturating_sub(bytes.len())));
        };
        Version::negotiate(version)?;
        if length as usize > Self::LABELS_BYTES_MAX {
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

fn read_fixed(fields: &mut FieldReader<'_>) -> Option<(Version, u32)> {
    fields.bytes(MAGIC.len())?;
    let version = Version { major: fields.u16()?, minor: fields.u16()? };
    Some((version, fields.u32()?))
}
