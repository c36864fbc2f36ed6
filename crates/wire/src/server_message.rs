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

use crate::fields::{FieldReader, sanitize_text, truncate_text};
use crate::{DecodeProgress, Redirect, RedirectReason, TEXT_BYTES_MAX, WireError};

const ACKED: u8 = 1;
const FAILED: u8 = 2;
const REDIRECT: u8 = 3;

/// A message of a node. Numbers of batches never fall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
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
    Redirect(Redirect),
}

impl ServerMessage {
    const FIXED_LEN: usize = 16;

    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, reason, acked, text) = match self {
            Self::Acked(acked) => (ACKED, 0, *acked, String::new()),
            Self::Failed { acked, text } => (FAILED, 0, *acked, text.clone()),
            Self::Redirect(elsewhere) => (REDIRECT, elsewhere.reason().0, 0, elsewhere.encode_addresses()),
        };
        let (text, length) = truncate_text(&text);
        let mut out = vec![kind, reason];
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
    pub fn decode(bytes: &[u8]) -> Result<DecodeProgress<Self>, WireError> {
        let mut fields = FieldReader(bytes);
        let Some((kind, reason, length, acked)) = read_fixed(&mut fields) else {
            return Ok(DecodeProgress::Incomplete(Self::FIXED_LEN.saturating_sub(bytes.len())));
        };
        if usize::from(length) > TEXT_BYTES_MAX {
            return Err(WireError::TextTooLong(length));
        }
        let whole = Self::FIXED_LEN + usize::from(length);
        let Some(text) = fields.bytes(usize::from(length)) else {
            return Ok(DecodeProgress::Incomplete(whole - bytes.len()));
        };
        match kind {
            ACKED => Ok(DecodeProgress::Complete(Self::Acked(acked), whole)),
            FAILED => Ok(DecodeProgress::Complete(Self::Failed { acked, text: sanitize_text(text) }, whole)),
            REDIRECT => {
                let redirect = Redirect::decode(RedirectReason(reason), text).ok_or(WireError::InvalidRedirect)?;
                Ok(DecodeProgress::Complete(Self::Redirect(redirect), whole))
            }
            _ => Err(WireError::UnknownKind(kind)),
        }
    }
}

fn read_fixed(fields: &mut FieldReader<'_>) -> Option<(u8, u8, u16, u64)> {
    let [kind, reason] = fields.array()?;
    let length = fields.u16()?;
    fields.array::<4>()?;
    Some((kind, reason, length, fields.u64()?))
}
