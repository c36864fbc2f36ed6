//! What a node says after its answer: how far its promise holds, and why it gives up.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     1  kind      1 acked; 2 failed: the node ends the connection; 3 elsewhere
//!        1     1  why       of elsewhere: see Why; else zero
//!        2     2  length    bytes of the text; 0 when acked; at most TEXT_BYTES_MAX
//!        4     4  reserved  zero
//!        8     8  acked     batches of this connection, from its start, whose promise holds; in elsewhere zero, and says nothing
//!       16        text      of failed: for people, UTF-8; of elsewhere: addresses, see Elsewhere
//! ```

use crate::fields::{Fields, printable, shortened};
use crate::{Elsewhere, Step, TEXT_BYTES_MAX, Why, WireError};

const ACKED: u8 = 1;
const FAILED: u8 = 2;
const ELSEWHERE: u8 = 3;

/// A message of a node. Numbers of batches never fall.
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
    /// Other nodes have less to do.
    Elsewhere(Elsewhere),
}

impl Told {
    const HEAD: usize = 16;

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, why, acked, text) = match self {
            Self::Acked(acked) => (ACKED, 0, *acked, String::new()),
            Self::Failed { acked, text } => (FAILED, 0, *acked, text.clone()),
            Self::Elsewhere(elsewhere) => (ELSEWHERE, elsewhere.why().0, 0, elsewhere.text()),
        };
        let (text, length) = shortened(&text);
        let mut out = vec![kind, why];
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
        let Some((kind, why, length, acked)) = head(&mut fields) else {
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
            ELSEWHERE => {
                let elsewhere = Elsewhere::read(Why(why), text).ok_or(WireError::Elsewhere)?;
                Ok(Step::Whole(Self::Elsewhere(elsewhere), whole))
            }
            _ => Err(WireError::Kind(kind)),
        }
    }
}

fn head(fields: &mut Fields<'_>) -> Option<(u8, u8, u16, u64)> {
    let [kind, why] = fields.array()?;
    let length = fields.u16()?;
    fields.array::<4>()?;
    Some((kind, why, length, fields.u64()?))
}
