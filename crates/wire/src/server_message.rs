//! The messages of a node after its hello reply: acknowledgements, failures and redirects.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     1  kind      1 acked; 2 failed: the node ends the connection; 3 redirect
//!        1     1  reason    of a redirect: see RedirectReason; else zero
//!        2     2  length    bytes of the text; 0 when acked; at most TEXT_BYTES_MAX
//!        4     4  reserved  zero
//!        8     8  acked     batches of this connection, from its start, that are durable; of a redirect zero
//!       16        text      of failed: reason for people, UTF-8; of a redirect: addresses, see Redirect
//! ```

use bucksaw_binary::ByteReader;

use crate::decode_progress::split_message;
use crate::fields::{sanitize_text, text_length, truncate_text};
use crate::{DecodeProgress, Redirect, RedirectReason, WireError};

const ACKED: u8 = 1;
const FAILED: u8 = 2;
const REDIRECT: u8 = 3;

/// A message of a node. The number of acknowledged batches never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// This number of batches from the start of the connection has the durability of the port.
    Acked(u64),
    /// No more batches will be acknowledged; the connection ends.
    Failed {
        /// Batches that are acknowledged.
        acked: u64,
        /// The reason for people.
        text: String,
    },
    /// Other nodes are less loaded.
    Redirect(Redirect),
}

impl ServerMessage {
    const FIXED_LEN: usize = 16;

    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, reason, acked, text) = match self {
            Self::Acked(acked) => (ACKED, 0, *acked, String::new()),
            Self::Failed { acked, text } => (FAILED, 0, *acked, text.clone()),
            Self::Redirect(redirect) => (REDIRECT, redirect.reason().0, 0, redirect.encode_addresses()),
        };
        let (text, length) = truncate_text(&text);
        let mut out = vec![kind, reason];
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&acked.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out
    }

    /// Decodes the message at the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as the bytes show it.
    pub fn decode(bytes: &[u8]) -> Result<DecodeProgress<Self>, WireError> {
        let read_fields = |reader: &mut ByteReader<'_>| {
            let (kind, reason, length) = (reader.u8()?, reader.u8()?, reader.u16()?);
            reader.bytes(4)?;
            Some((kind, reason, length, reader.u64()?))
        };
        split_message(bytes, Self::FIXED_LEN, read_fields, |(_, _, length, _)| text_length(*length))?.try_map(
            |((kind, reason, _, acked), text)| match kind {
                ACKED => Ok(Self::Acked(acked)),
                FAILED => Ok(Self::Failed { acked, text: sanitize_text(text) }),
                REDIRECT => {
                    Redirect::decode(RedirectReason(reason), text).map(Self::Redirect).ok_or(WireError::InvalidRedirect)
                }
                _ => Err(WireError::UnknownKind(kind)),
            },
        )
    }
}
