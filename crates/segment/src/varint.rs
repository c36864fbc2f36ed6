//! Variable-length integers: LEB128, zigzag for signed differences, and a bounds-checked reader.

/// Appends an integer: seven bits per byte, low bits first; the top bit means that more bytes follow.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the wrapping difference `to - from`; small differences in either direction take few bytes.
pub(crate) fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    let step = to.wrapping_sub(from) as i64;
    put_varint(out, ((step << 1) ^ (step >> 63)) as u64);
}

/// Reads such integers. Every method returns `None` at the end of the bytes or for values out of bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
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

    pub(crate) fn varint_u32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    /// The value whose difference to `from` was written by [`put_delta`].
    pub(crate) fn delta(&mut self, from: u64) -> Option<u64> {
        let zigzag = self.varint()?;
        let step = ((zigzag >> 1) as i64) ^ -((zigzag & 1) as i64);
        Some(from.wrapping_add(step as u64))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_round_trip(value: u64, from: u64, to: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_delta(&mut out, from, to);
            let mut reader = ByteReader(&out);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert_eq!(reader.delta(from), Some(to));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let mut reader = ByteReader(&bytes);
            while reader.varint().is_some() {}
        }
    }
}
