//! Consecutive typed messages with checksums.
//!
//! ```text
//!   offset  size  field
//!        0     1  kind     readers skip unknown kinds from 128 on, and refuse others
//!        1     4  length   bytes of the content, little-endian, at most STREAM_MESSAGE_BYTES_MAX
//!        5     4  crc32c   over kind, length and content
//!        9     …  content
//! ```
//! The kinds belong to the caller, as does a last message that distinguishes an end from a truncation.

use bytes::{Buf as _, Bytes, BytesMut};

/// The longest content, in bytes: a batch with one record of the greatest length fits in.
pub const STREAM_MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Memory for contents up to this size, in bytes, is reserved when the header has arrived. Longer ones may never arrive.
const USUAL_BYTES_MAX: usize = 2 << 20;

/// Bytes before the content.
const HEADER_LEN: usize = 9;

/// Readers skip kinds from here on that they do not know.
const SKIPPABLE_KIND_MIN: u8 = 128;

/// The kinds of message of one stream.
pub trait StreamMessageKind: Copy {
    /// The byte in the header.
    fn to_byte(self) -> u8;

    /// The kind of a byte; `None` if it is unknown.
    fn from_byte(byte: u8) -> Option<Self>;
}

/// A message is invalid, for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedMessage(pub &'static str);

impl MalformedMessage {
    /// The content ends within a field.
    pub const TOO_SHORT: Self = Self("a message is too short");
}

/// The header of a content that consists of these parts.
pub fn stream_header(kind: impl StreamMessageKind, parts: &[&[u8]]) -> [u8; HEADER_LEN] {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut header = [0; HEADER_LEN];
    let (summed, crc) = header.split_at_mut(5);
    if let Some((first, rest)) = summed.split_first_mut() {
        *first = kind.to_byte();
        // The reader refuses a longer content.
        rest.copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    let sum = parts.iter().fold(crc32c::crc32c(summed), |sum, part| crc32c::crc32c_append(sum, part));
    crc.copy_from_slice(&sum.to_le_bytes());
    header
}

/// A whole message.
pub fn stream_message(kind: impl StreamMessageKind, content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEADER_LEN + content.len());
    out.extend_from_slice(&stream_header(kind, &[content]));
    out.extend_from_slice(content);
    out.into()
}

/// Reads messages from bytes that arrive in pieces.
#[derive(Debug, Default)]
pub struct MessageReader {
    /// Bytes that arrived and belong to no message that was returned.
    bytes: BytesMut,
}

impl MessageReader {
    /// Adds bytes that arrived.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// Whether all bytes belonged to messages that were returned.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next message; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`MalformedMessage`]; the bytes behind it cannot be read, either.
    pub fn next_message<K: StreamMessageKind>(&mut self) -> Result<Option<(K, Bytes)>, MalformedMessage> {
        loop {
            let Some(&[kind, a, b, c, d, e, f, g, h]) = self.bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            if length > STREAM_MESSAGE_BYTES_MAX {
                return Err(MalformedMessage("a message is too long"));
            }
            let missing = length.saturating_sub(self.bytes.len() - HEADER_LEN);
            if missing > 0 {
                // Growing piece by piece would end at up to twice the memory.
                if length <= USUAL_BYTES_MAX {
                    self.bytes.reserve(missing);
                }
                return Ok(None);
            }
            self.bytes.advance(HEADER_LEN);
            let content = self.bytes.split_to(length).freeze();
            if crc32c::crc32c_append(crc32c::crc32c(&[kind, a, b, c, d]), &content) != u32::from_le_bytes([e, f, g, h])
            {
                return Err(MalformedMessage("a message is damaged"));
            }
            match K::from_byte(kind) {
                Some(kind) => return Ok(Some((kind, content))),
                None if kind >= SKIPPABLE_KIND_MIN => {}
                None => return Err(MalformedMessage("a message is of an unknown kind")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum TestMessageKind {
        Head = 1,
        End = 5,
    }

    impl StreamMessageKind for TestMessageKind {
        fn to_byte(self) -> u8 {
            self as u8
        }

        fn from_byte(byte: u8) -> Option<Self> {
            [Self::Head, Self::End].into_iter().find(|kind| *kind as u8 == byte)
        }
    }

    #[test]
    fn a_long_message_allocates_its_memory_once() {
        let bytes = stream_message(TestMessageKind::Head, &vec![7; 1 << 20]);
        let mut messages = MessageReader::default();
        for piece in bytes.chunks(60_000) {
            assert_eq!(messages.next_message::<TestMessageKind>(), Ok(None));
            messages.push(piece);
            assert!(messages.bytes.capacity() < bytes.len() + 100_000, "{}", messages.bytes.capacity());
        }
        assert_eq!(
            messages.next_message::<TestMessageKind>().unwrap().map(|(_, content)| content.len()),
            Some(1 << 20)
        );
    }

    #[test]
    fn unknown_kinds_are_skipped_or_refused() {
        let of = |kind: u8| {
            let mut bytes = stream_message(TestMessageKind::End, b"x").to_vec();
            bytes[0] = kind;
            let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..5]), b"x");
            bytes[5..9].copy_from_slice(&sum.to_le_bytes());
            bytes.extend_from_slice(&stream_message(TestMessageKind::Head, b"h"));
            let mut messages = MessageReader::default();
            messages.push(&bytes);
            messages.next_message::<TestMessageKind>().map(|found| found.map(|(kind, _)| kind))
        };
        assert_eq!(of(5), Ok(Some(TestMessageKind::End)));
        assert_eq!(of(200), Ok(Some(TestMessageKind::Head)));
        assert_eq!(of(99), Err(MalformedMessage("a message is of an unknown kind")));
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_messages(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let bytes: Vec<u8> =
                contents.iter().flat_map(|content| stream_message(TestMessageKind::Head, content).to_vec()).collect();
            let (mut rest, mut messages, mut found) = (&bytes[..], MessageReader::default(), Vec::new());
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                messages.push(piece);
                rest = after;
                while let Some((_, content)) = messages.next_message::<TestMessageKind>().unwrap() {
                    found.push(content.to_vec());
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(messages.is_empty());
            prop_assert_eq!(found, contents);
        }

        #[test]
        fn a_flipped_bit_is_detected(content in prop::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>()) {
            let mut bytes = stream_message(TestMessageKind::End, &content).to_vec();
            let bit = at.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut messages = MessageReader::default();
            messages.push(&bytes);
            prop_assert!(!matches!(messages.next_message::<TestMessageKind>(), Ok(Some(_))));
        }
    }
}
