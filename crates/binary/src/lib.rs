//! Integers as bytes, for files and messages: little-endian, or of variable length (LEB128).
//!
//! [`ByteReader`] reads them from bytes that may be damaged: a read behind the end gives `None`.
//!
//! ```
//! use bucksaw_binary::{ByteReader, put_varint};
//! let mut bytes = 7_u32.to_le_bytes().to_vec();
//! put_varint(&mut bytes, 300);
//! let mut reader = ByteReader(&bytes);
//! assert_eq!((reader.u32(), reader.varint(), reader.u8()), (Some(7), Some(300), None));
//! ```
#![deny(clippy::indexing_slicing)]

/// Appends an integer: seven bits per byte, low bits first; the top bit means that more bytes follow.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the wrapping difference `to - from` in zigzag; small differences in either direction take few bytes.
#[inline]
pub fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    let step = to.wrapping_sub(from) as i64;
    put_varint(out, ((step << 1) ^ (step >> 63)) as u64);
}

/// The bytes that are not read yet. Every method returns `None` at their end, and for values out of bounds; the position is
/// then unspecified.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

macro_rules! read_integers {
    ($($integer:ident),*) => {$(
        /// The next integer, little-endian.
        #[inline]
        pub fn $integer(&mut self) -> Option<$integer> {
            self.array().map($integer::from_le_bytes)
        }
    )*};
}

impl<'a> ByteReader<'a> {
    read_integers!(u8, u16, u32, u64, u128);

    /// The next integer that [`put_varint`] wrote.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.split_off_first()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next integer that [`put_varint`] wrote, if it has at most 32 bits.
    #[inline]
    pub fn varint_u32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    /// The value whose difference to `from` was written by [`put_delta`].
    #[inline]
    pub fn delta(&mut self, from: u64) -> Option<u64> {
        let zigzag = self.varint()?;
        let step = ((zigzag >> 1) as i64) ^ -((zigzag & 1) as i64);
        Some(from.wrapping_add(step as u64))
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        self.0.split_off(..count)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Whether all bytes are read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of bytes that are not read yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_varint_of_more_than_64_bits_is_refused() {
        let with_last = |last| [&[0xff; 9][..], &[last]].concat();
        assert_eq!(ByteReader(&with_last(1)).varint(), Some(u64::MAX));
        assert_eq!(ByteReader(&with_last(2)).varint(), None);
        assert_eq!(ByteReader(&[0x80; 11]).varint(), None);
        assert_eq!(ByteReader(&[0xff; 5]).varint_u32(), None);
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: u64, from: u64, to: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_delta(&mut out, from, to);
            out.extend_from_slice(&value.to_le_bytes());
            let mut reader = ByteReader(&out);
            prop_assert_eq!((reader.varint(), reader.delta(from)), (Some(value), Some(to)));
            prop_assert_eq!((reader.len(), reader.u64(), reader.is_empty()), (8, Some(value), true));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let mut reader = ByteReader(&bytes);
            while reader.varint().is_some() {}
            prop_assert_eq!(ByteReader(&bytes).bytes(bytes.len() + 1), None);
        }
    }
}
