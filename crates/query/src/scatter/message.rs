//! Messages of an answer, one behind the other in a body.
//!
//! ```text
//!   offset  size  field
//!        0     1  kind     one of `Kind`; readers pass over kinds from 128 on that they do not know
//!        1     4  length   bytes of the content, little-endian, at most MESSAGE_BYTES_MAX
//!        5     4  crc32c   over kind, length and content
//!        9     …  content
//! ```
//! The first message is a [head](Kind::Head), the last an [end](Kind::End): what ends without one was cut off.

use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes of a message's content: a batch with one record of the greatest length fits in.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Messages of up to this many bytes have their memory reserved when their header has come.
const USUAL_BYTES_MAX: usize = 2 << 20;

/// Bytes before the content.
const HEADER_LEN: usize = 9;

/// Kinds from here on may be passed over by who does not know them.
const SKIPPABLE_KIND_MIN: u8 = 128;

/// What a message brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// Who answers, and what it looks at from now on; JSON.
    Head = 1,
    /// How far the answer has come; JSON.
    Progress = 2,
    /// Records.
    Batch = 3,
    /// Counted ids.
    Cells = 4,
    /// That this was all; JSON.
    End = 5,
}

impl MessageKind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Head,
            2 => Self::Progress,
            3 => Self::Batch,
            4 => Self::Cells,
            5 => Self::End,
            _ => return None,
        })
    }
}

/// The bytes are no messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MalformedMessage(pub(crate) &'static str);

/// The bytes before a content that consists of these parts.
pub(crate) fn header(kind: MessageKind, parts: &[&[u8]]) -> [u8; HEADER_LEN] {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut header = [0; HEADER_LEN];
    let (said, crc) = header.split_at_mut(5);
    if let Some((first, rest)) = said.split_first_mut() {
        *first = kind as u8;
        // What is longer is refused by the other side.
        rest.copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
    let sum = parts.iter().fold(crc32c::crc32c(said), |sum, part| crc32c::crc32c_append(sum, part));
    crc.copy_from_slice(&sum.to_le_bytes());
    header
}

/// A whole message.
pub(crate) fn message(kind: MessageKind, content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEADER_LEN + content.len());
    out.extend_from_slice(&header(kind, &[content]));
    out.extend_from_slice(content);
    out.into()
}

/// Takes messages out of bytes that come in pieces.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    /// What came in and was not taken out.
    bytes: BytesMut,
}

impl MessageReader {
    /// Adds what came next.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// Whether there is nothing left.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next message; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`Broken`]. What follows cannot be read, either.
    pub(crate) fn next(&mut self) -> Result<Option<(MessageKind, Bytes)>, MalformedMessage> {
        loop {
            let Some(&[kind, a, b, c, d, e, f, g, h]) = self.bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            if length > MESSAGE_BYTES_MAX {
                return Err(MalformedMessage("a message is too long"));
            }
            let missing = length.saturating_sub(self.bytes.len() - HEADER_LEN);
            if missing > 0 {
                // Growing piece by piece would end at up to twice the memory. What is longer than usual may never come.
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
            match MessageKind::of(kind) {
                Some(kind) => return Ok(Some((kind, content))),
                None if kind >= SKIPPABLE_KIND_MIN => {}
                None => return Err(MalformedMessage("a message is of an unknown kind")),
            }
        }
    }
}

/// Takes fixed numbers and stretches out of bytes, each checked.
pub(crate) struct ByteCursor<'a>(pub(crate) &'a [u8]);

impl<'a> ByteCursor<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], MalformedMessage> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(MalformedMessage("a message is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(MalformedMessage("a message is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, MalformedMessage> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, MalformedMessage> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, MalformedMessage> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, MalformedMessage> {
        self.array().map(u128::from_le_bytes)
    }

    /// So many numbers.
    pub(crate) fn u32s(&mut self, count: usize) -> Result<Vec<u32>, MalformedMessage> {
        let (numbers, _) = self.take(count.saturating_mul(4))?.as_chunks::<4>();
        Ok(numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_message_takes_its_memory_once() {
        let bytes = message(MessageKind::Batch, &vec![7; 1 << 20]);
        let mut messages = MessageReader::default();
        for piece in bytes.chunks(60_000) {
            assert_eq!(messages.next(), Ok(None));
            messages.push(piece);
            assert!(messages.bytes.capacity() < bytes.len() + 100_000, "{}", messages.bytes.capacity());
        }
        assert_eq!(messages.next().unwrap().map(|(_, content)| content.len()), Some(1 << 20));
    }

    #[test]
    fn what_is_unknown_is_passed_over_or_refused() {
        let of = |kind: u8| {
            let mut bytes = message(MessageKind::End, b"x").to_vec();
            bytes[0] = kind;
            let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..5]), b"x");
            bytes[5..9].copy_from_slice(&sum.to_le_bytes());
            bytes.extend_from_slice(&message(MessageKind::Head, b"h"));
            let mut messages = MessageReader::default();
            messages.push(&bytes);
            messages.next().map(|found| found.map(|(kind, _)| kind))
        };
        assert_eq!(of(5), Ok(Some(MessageKind::End)));
        assert_eq!(of(200), Ok(Some(MessageKind::Head)));
        assert_eq!(of(99), Err(MalformedMessage("a message is of an unknown kind")));
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_messages(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let bytes: Vec<u8> =
                contents.iter().flat_map(|content| message(MessageKind::Batch, content).to_vec()).collect();
            let (mut rest, mut messages, mut found) = (&bytes[..], MessageReader::default(), Vec::new());
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                messages.push(piece);
                rest = after;
                while let Some((_, content)) = messages.next().unwrap() {
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
        fn a_flipped_bit_is_noticed(content in prop::collection::vec(any::<u8>(), 0..40), at in any::<prop::sample::Index>()) {
            let mut bytes = message(MessageKind::Cells, &content).to_vec();
            let bit = at.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut messages = MessageReader::default();
            messages.push(&bytes);
            prop_assert!(!matches!(messages.next(), Ok(Some(_))));
        }
    }
}
