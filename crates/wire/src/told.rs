//! What a node says after its answer: how far its promise holds, and why it gives up.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     1  kind      1 acked; 2 failed: the node ends the connection
//!        1     1  reserved  zero
//!        2     2  length    bytes of the text; 0 unless failed; at most TEXT_BYTES_MAX
//!        4     4  reserved  zero
//!        8     8  acked     batches of this connection, from its start, whose promise holds
//!       16        text      for people: UTF-8
//! ```

use crate::fields::{Fields, printable, shortened};
use crate::{Step, TEXT_BYTES_MAX, WireError};

const ACKED: u8 = 1;
const FAILED: u8 = 2;

/// A message of a node. Numbers never fall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The promise holds for so many batches, counted from the start of the connection.
    Acked(u64),
    /// It may not hold for more than these; the connection ends.
    Failed {
        /// Batches whose promise holds.
        acked: u64,
        /// Why no more.
        text: String,
    },
}

impl Told {
    const HEAD: usize = 16;

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, acked, text) = match self {
            Self::Acked(acked) => (ACKED, *acked, ""),
            Self::Failed { acked, text } => (FAILED, *acked, text.as_str()),
        };
        let (text, length) = shortened(text);
        let mut out = vec![kind, 0];
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&acked.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out
    }

    /// Reads the message from the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as it shows.
    pub fn decode(bytes: &[u8]) -> Result<Step<Self>, WireError> {
        let mut fields = Fields(bytes);
        let Some((kind, length, acked)) = head(&mut fields) else {
            return Ok(Step::Need(Self::HEAD.saturating_sub(bytes.len())));
        };
        if usize::from(length) > TEXT_BYTES_MAX {
            return Err(WireError::TextLong(length));
        }
        let whole = Self::HEAD + usize::from(length);
        let Some(text) = fields.bytes(usize::from(length)) else { return Ok(Step::Need(whole - bytes.len())) };
        match kind {
            ACKED => Ok(Step::Whole(Self::Acked(acked), whole)),
            FAILED => Ok(Step::Whole(Self::Failed { acked, text: printable(text) }, whole)),
            _ => Err(WireError::Kind(kind)),
        }
    }
}

fn head(fields: &mut Fields<'_>) -> Option<(u8, u16, u64)> {
    let [kind, _] = fields.array()?;
    let length = fields.u16()?;
    fields.array::<4>()?;
    Some((kind, length, fields.u64()?))
}
