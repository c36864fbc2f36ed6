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

use bucksaw_binary::ByteReader;
use bucksaw_record::Labels;

use crate::decode_progress::split_message;
use crate::fields::{check_magic, read_version};
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
        check_magic(bytes)?;
        let read_fields = |reader: &mut ByteReader<'_>| Some((read_version(reader)?, reader.u32()?));
        let read_length = |(version, length): &(WireVersion, u32)| {
            WireVersion::negotiate(*version).ok_or(WireError::Version(*version))?;
            let fits = *length as usize <= LABELS_BYTES_MAX;
            if fits { Ok(*length as usize) } else { Err(WireError::LabelsTooLong(*length)) }
        };
        split_message(bytes, Self::FIXED_LEN, read_fields, read_length)?.try_map(|((version, _), labels)| {
            Ok(Self { version, labels: Labels::decode(labels).map_err(WireError::Labels)? })
        })
    }
}
