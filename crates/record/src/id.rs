//! The id of a record: a 128-bit ULID whose random part is a producer and a sequence number.
//!
//! ```text
//!   bits 127..80  48  Unix milliseconds: the time of the record
//!   bits  79..32  48  producer: one per connection, per section of a batch with a key, or per segment
//!   bits  31..0   32  sequence number within the producer
//! ```
//! Ids sort by time. Lines contain no ids: a frame states its first id, and its record `i` has the sequence number
//! `first + i`. A retry that assigns the same ids creates no duplicates.
//!
//! Invariant: a producer assigns each sequence number to one record only, so producer and sequence number identify it.
//!
//! The text form is defined in <https://github.com/ulid/spec>: 26 characters of Crockford's base 32.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Millis;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TEXT_LEN: usize = 26;

/// A source of sequence numbers: 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer(u64);

impl Producer {
    const MASK: u64 = (1 << 48) - 1;
    const KEYED_BIT: u64 = 1 << 47;

    /// The producer with the low 48 bits of `bits`.
    pub const fn new(bits: u64) -> Self {
        Self(bits & Self::MASK)
    }

    /// A producer from a random number, for one connection or one segment. Its top bit is 0.
    pub const fn random(random: u64) -> Self {
        Self(random & Self::MASK & !Self::KEYED_BIT)
    }

    /// The producer derived from a key, for a section of an idempotent batch. Its top bit is 1, so it never equals a
    /// random one. FNV-1a, finished by the mixer of splitmix64: the result is the same on every machine and in every
    /// version.
    pub fn from_key(key: &[u8]) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in key {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(((hash ^ (hash >> 31)) & Self::MASK) | Self::KEYED_BIT)
    }

    /// A producer of the same kind, derived from a key or random, with bits of a random number.
    #[must_use]
    pub const fn with_random_bits(self, random: u64) -> Self {
        Self((random & Self::MASK & !Self::KEYED_BIT) | (self.0 & Self::KEYED_BIT))
    }

    /// Whether this is from [`Self::from_key`].
    pub const fn is_keyed(self) -> bool {
        self.0 & Self::KEYED_BIT != 0
    }

    /// The sequence number of the first record in the section after the one with this producer: 31 bits. See
    /// [`Id::is_followed_by`].
    pub const fn next_section_sequence(self) -> u32 {
        self.0 as u32 & (u32::MAX >> 1)
    }

    /// The 48 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The identity of a record; its order is the order of answers. Serialised as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Id(u128);

impl Id {
    /// The lowest id.
    pub const MIN: Self = Self(0);
    /// The highest id.
    pub const MAX: Self = Self(u128::MAX);

    /// An id from its parts. Times after [`Millis::MAX`] are clamped to it.
    pub const fn new(at: Millis, producer: Producer, sequence: u32) -> Self {
        let ms = if at.0 > Millis::MAX.0 { Millis::MAX.0 } else { at.0 };
        Self(((ms as u128) << 80) | ((producer.0 as u128) << 32) | sequence as u128)
    }

    /// The lowest id with this time.
    pub const fn first_at(at: Millis) -> Self {
        Self::new(at, Producer(0), 0)
    }

    /// The id with these bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The time of the record.
    pub const fn time(self) -> Millis {
        Millis((self.0 >> 80) as u64)
    }

    /// The producer of the record.
    pub const fn producer(self) -> Producer {
        Producer::new((self.0 >> 32) as u64)
    }

    /// The sequence number of the record within its producer.
    pub const fn sequence(self) -> u32 {
        self.0 as u32
    }

    /// Whether the record `next` directly follows this one in its source: it has the next sequence number, or is the
    /// first record of the next section of an idempotent batch.
    pub fn is_followed_by(self, next: Self) -> bool {
        let (producer, next_producer) = (self.producer(), next.producer());
        let is_next_section =
            producer.is_keyed() && next_producer.is_keyed() && next.sequence() == producer.next_section_sequence();
        if producer == next_producer {
            self.sequence().checked_add(1) == Some(next.sequence())
        } else {
            is_next_section
        }
    }

    /// The id with the sequence number increased by `by`; `None` on overflow, and the caller needs a new producer.
    #[must_use]
    pub fn checked_add(self, by: u32) -> Option<Self> {
        Some(Self::new(self.time(), self.producer(), self.sequence().checked_add(by)?))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'0'; TEXT_LEN];
        let mut rest = self.0;
        for digit in text.iter_mut().rev() {
            *digit = ALPHABET.get((rest & 31) as usize).copied().unwrap_or(b'0');
            rest >>= 5;
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for Id {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The text is not a ULID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid id: expected {TEXT_LEN} characters of 0-9 and A-Z without I, L, O, U, first character at most 7")]
pub struct InvalidId;

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.len() != TEXT_LEN || text.as_bytes().first().is_none_or(|first| *first > b'7') {
            return Err(InvalidId);
        }
        let mut bits = 0_u128;
        for byte in text.bytes() {
            let upper = byte.to_ascii_uppercase();
            let digit = ALPHABET.iter().position(|letter| *letter == upper).ok_or(InvalidId)?;
            bits = (bits << 5) | digit as u128;
        }
        Ok(Self(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn components_round_trip() {
        let id = Id::new(Millis(1_763_683_800_123), Producer::new(0xabcd_ef01_2345), 77);
        assert_eq!((id.time(), id.producer().bits(), id.sequence()), (Millis(1_763_683_800_123), 0xabcd_ef01_2345, 77));
        assert_eq!(id.checked_add(1).map(Id::sequence), Some(78));
        assert_eq!(id.checked_add(u32::MAX), None);
    }

    #[test]
    fn is_followed_by_recognises_the_next_record() {
        let at = |producer, sequence| Id::new(Millis(5), producer, sequence);
        let (random, keyed, other) = (Producer::random(7), Producer::from_key(b"a"), Producer::from_key(b"b"));
        assert!(at(random, 4).is_followed_by(at(random, 5)) && !at(random, 4).is_followed_by(at(random, 6)));
        assert!(!at(random, u32::MAX).is_followed_by(at(random, 0)));
        assert!(
            at(keyed, 4).is_followed_by(at(keyed, 5))
                && !at(keyed, 4).is_followed_by(at(keyed, keyed.next_section_sequence()))
        );
        assert!(at(keyed, 4).is_followed_by(at(other, keyed.next_section_sequence())));
        assert!(!at(keyed, 4).is_followed_by(at(other, 0)) && !at(keyed, 4).is_followed_by(at(other, 5)));
        assert!(!at(random, 4).is_followed_by(at(other, random.next_section_sequence())));
    }

    #[test]
    fn text_matches_the_ulid_spec() {
        assert_eq!(Id::MAX.to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        assert_eq!(Id::MIN.to_string(), "00000000000000000000000000");
        assert_eq!(Id::first_at(Millis(1_469_918_176_385)).to_string().get(..10), Some("01ARYZ6S41"));
        for bad in ["", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0000000000000000000000000U", "0000000000000000000000000é"] {
            assert_eq!(bad.parse::<Id>(), Err(InvalidId), "{bad}");
        }
    }

    #[test]
    fn keyed_producers_are_stable_and_never_equal_random_ones() {
        assert_eq!(Producer::from_key(b"batch-1"), Producer::from_key(b"batch-1"));
        assert_ne!(Producer::from_key(b"batch-1"), Producer::from_key(b"batch-2"));
        assert!(Producer::from_key(b"").is_keyed() && !Producer::random(u64::MAX).is_keyed());
    }

    proptest! {
        #[test]
        fn text_round_trips_and_sorts_like_the_id(a: u128, b: u128) {
            let (a, b) = (Id::from_bits(a), Id::from_bits(b));
            prop_assert_eq!(a.to_string().parse::<Id>(), Ok(a));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
