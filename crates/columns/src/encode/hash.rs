//! A fast hash for tables that compare bytes, or for columns that are compared with their text; never stored. It uses wyhash's mixing step (Wang Yi, public domain):
//! multiply to 128 bits and fold.

use crate::encode::text_span::TextSpan;

const K0: u64 = 0xa076_1d64_78bd_642f;
const K1: u64 = 0xe703_7ed1_a0b4_28db;

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of some bytes.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let len = bytes.len() as u64;
    if let Some(tail) = bytes.last_chunk::<16>() {
        let mix_pair = |state: u64, pair: &[u8; 16]| {
            let pair = u128::from_le_bytes(*pair);
            mix(pair as u64 ^ K1, (pair >> 64) as u64 ^ state)
        };
        // The last pair overlaps the one before, unless the length is a multiple of 16.
        let (pairs, _) = bytes[..bytes.len() - 1].as_chunks::<16>();
        return mix_pair(pairs.iter().fold(K0 ^ len, mix_pair), tail);
    }
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return mix(u64::from_le_bytes(*head) ^ K1, u64::from_le_bytes(*tail) ^ K0 ^ len);
    }
    let short = match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(head), Some(tail)) => u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail)),
        _ => bytes.iter().fold(0, |state, byte| state << 8 | u64::from(*byte)),
    };
    mix(short ^ K1, len ^ K0)
}

/// The key of a value: its length with the bytes of a short value, or a hash of a longer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueKey {
    pub(crate) bits: u64,
    pub(crate) len: u32,
}

impl ValueKey {
    /// The key of a span of a text.
    #[inline]
    pub(crate) fn of(text: &[u8], span: TextSpan) -> Self {
        let bits = match text.get(span.start as usize..).and_then(<[u8]>::first_chunk::<8>) {
            _ if span.len == 0 => 0,
            Some(chunk) if span.len <= 8 => u64::from_le_bytes(*chunk) << (64 - span.len * 8),
            None if span.len <= 8 => span.slice(text).iter().fold(0, |bits, byte| bits >> 8 | u64::from(*byte) << 56),
            _ => hash(span.slice(text)),
        };
        Self { bits, len: span.len }
    }

    /// The hash that selects the slot in a table.
    #[inline]
    pub(crate) fn slot_hash(self) -> usize {
        mix(self.bits ^ K1, K0 ^ u64::from(self.len)) as usize
    }
}

/// Whether two texts are equal, without a call to memcmp for those of up to 64 bytes.
#[inline]
pub(crate) fn bytes_equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let halves = match a.len() {
        0..=16 => halves_equal::<8>(a, b).or_else(|| halves_equal::<4>(a, b)),
        17..=32 => halves_equal::<16>(a, b),
        33..=64 => halves_equal::<32>(a, b),
        _ => return a == b,
    };
    halves.unwrap_or_else(|| a.iter().zip(b).all(|(a, b)| a == b))
}

/// Whether the first and the last `N` bytes are equal; `None` if a text is shorter.
#[inline]
fn halves_equal<const N: usize>(a: &[u8], b: &[u8]) -> Option<bool> {
    Some(a.first_chunk::<N>()? == b.first_chunk()? && a.last_chunk::<N>()? == b.last_chunk()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_do_not_depend_on_the_bytes_behind() {
        let text = b"0123456789 0123456789";
        for len in 0..=10 {
            for start in 0..=10 - len {
                let (a, b) = (TextSpan { start, len }, TextSpan { start: start + 11, len });
                assert!(ValueKey::of(text, a) == ValueKey::of(text, b), "{len} at {start}");
                assert!(len == 0 || ValueKey::of(text, a) != ValueKey::of(text, TextSpan { start: start + 1, len }));
            }
        }
    }

    #[test]
    fn every_byte_counts_in_a_comparison() {
        let text: Vec<u8> = (0..100).collect();
        let copy = text.clone();
        for len in 0..text.len() {
            assert!(bytes_equal(&text[..len], &copy[..len]) && !bytes_equal(&text[..len], &copy[..len + 1]));
            for at in 0..len {
                let mut other = text[..len].to_vec();
                other[at] ^= 1;
                assert!(!bytes_equal(&text[..len], &other), "{at} of {len}");
            }
        }
    }

    #[test]
    fn hashes_of_all_lengths_differ() {
        let text: Vec<u8> = (0..200).map(|at| (at * 7) as u8).collect();
        let hashes: HashSet<u64> = (0..text.len()).map(|end| hash(&text[..end])).collect();
        assert_eq!(hashes.len(), text.len());
        for len in [15, 16, 17, 24, 32, 33] {
            let flipped = |bit: usize| {
                let mut text = vec![0_u8; len];
                text[bit / 8] ^= 1 << (bit % 8);
                hash(&text)
            };
            assert_eq!((0..len * 8).map(flipped).collect::<HashSet<u64>>().len(), len * 8, "{len}");
        }
    }
}
