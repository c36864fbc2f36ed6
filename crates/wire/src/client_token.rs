//! The token of a client, for a node that authenticates. Since version 1.4.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     4  marker    "BSWT"
//!        4     4  length    bytes behind the header; 1 to TOKEN_BYTES_MAX
//!        8    48  reserved  zero
//!       56        token     UTF-8
//! ```
//! It is the first message after the hello reply. A client sends it to no node of an older version, because that node could not
//! read it. The node answers with an acknowledgement of 0 batches, or with a failure; then the connection ends. So a client
//! knows that it is recognised before it sends records.

use std::fmt;

use bucksaw_binary::ByteReader;
use bucksaw_segment::FrameHeader;

use crate::{TOKEN_BYTES_MAX, WireError};

/// The token of a client. Its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientToken(pub String);

impl ClientToken {
    /// The first bytes of the message.
    pub(crate) const MARKER: [u8; 4] = *b"BSWT";

    /// Encodes the message. A token that is too long is cut, so that the node refuses it.
    pub fn encode(&self) -> Vec<u8> {
        let token = self.0.as_bytes();
        let token = token.get(..TOKEN_BYTES_MAX).unwrap_or(token);
        let mut out = Self::MARKER.to_vec();
        out.extend_from_slice(&(token.len() as u32).to_le_bytes());
        out.resize(FrameHeader::LEN, 0);
        out.extend_from_slice(token);
        out
    }

    /// The length of the token behind this header; `None` if it is that of another message.
    ///
    /// # Errors
    /// [`WireError::InvalidToken`].
    pub(crate) fn body_length(header: &[u8; FrameHeader::LEN]) -> Result<Option<usize>, WireError> {
        let mut reader = ByteReader(header);
        if reader.bytes(Self::MARKER.len()) != Some(&Self::MARKER) {
            return Ok(None);
        }
        let length = reader.u32().unwrap_or_default() as usize;
        if (1..=TOKEN_BYTES_MAX).contains(&length) { Ok(Some(length)) } else { Err(WireError::InvalidToken) }
    }

    /// Decodes the bytes behind the header.
    ///
    /// # Errors
    /// [`WireError::InvalidToken`].
    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, WireError> {
        str::from_utf8(body).map(|token| Self(token.to_owned())).map_err(|_| WireError::InvalidToken)
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientMessage, DecodeProgress};

    #[test]
    fn tokens_are_read_as_they_are_written_and_not_shown() {
        let token = ClientToken("bks_abc".to_owned());
        let bytes = token.encode();
        for end in 0..bytes.len() {
            let step = ClientMessage::decode(&bytes[..end], 64).unwrap();
            assert!(matches!(step, DecodeProgress::Incomplete(1..)), "{end}: {step:?}");
        }
        let DecodeProgress::Complete(message, used) = ClientMessage::decode(&bytes, 64).unwrap() else {
            panic!("it is complete")
        };
        assert!(used == bytes.len() && matches!(&message, ClientMessage::Token(found) if *found == token));
        assert!(!format!("{message:?}").contains("abc"));
    }

    #[test]
    fn malformed_tokens_are_refused() {
        let with = |length: u32, body: &[u8]| {
            let mut bytes = ClientToken(String::new()).encode();
            bytes[4..8].copy_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(body);
            ClientMessage::decode(&bytes, 64).map(|_| ())
        };
        assert_eq!(with(0, b""), Err(WireError::InvalidToken));
        assert_eq!(with(TOKEN_BYTES_MAX as u32 + 1, b""), Err(WireError::InvalidToken));
        assert_eq!(with(1, b"\xff"), Err(WireError::InvalidToken));
        assert_eq!(with(1, b"x"), Ok(()));
        let long = ClientToken("x".repeat(TOKEN_BYTES_MAX + 9)).encode();
        assert_eq!(long.len(), FrameHeader::LEN + TOKEN_BYTES_MAX);
    }
}
