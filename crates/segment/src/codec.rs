//! Codecs of blocks. The block's entry stores the codec as one byte, so that codecs can be added.

use std::borrow::Cow;

use crate::zstd_context;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Uncompressed.
    Plain,
    /// LZ4 block format: faster, and larger.
    Lz4,
    /// Zstandard at a level of 1 to 19.
    Zstd(i8),
    /// Searchable columns, compressed with Zstandard at a level. Used for the text of a block if its lines are similar;
    /// anything else is compressed as by `Zstd`. See `bucksaw_columns`.
    Columns(i8),
    /// `Columns` also for texts that are too small to gain by it, for tests with small blocks. The stored format is the same.
    ColumnsAlways(i8),
}

impl Codec {
    /// The byte in the block's entry. The level is not stored: decompression does not need it.
    pub fn byte(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Lz4 => 1,
            Self::Zstd(_) => 2,
            Self::Columns(_) | Self::ColumnsAlways(_) => 3,
        }
    }

    /// The codec with this byte; `None` if unknown.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Plain),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd(0)),
            3 => Some(Self::Columns(0)),
            _ => None,
        }
    }

    /// Compresses `raw`, or returns it as `Plain` if that is not smaller.
    pub fn pack(self, raw: &[u8]) -> (Self, Cow<'_, [u8]>) {
        let packed = match self {
            Self::Plain => None,
            Self::Lz4 => Some(lz4_flex::block::compress(raw)),
            Self::Zstd(level) | Self::Columns(level) | Self::ColumnsAlways(level) => {
                zstd_context::compress(raw, i32::from(level)).ok()
            }
        };
        match packed {
            Some(packed) if packed.len() < raw.len() => (self.without_columns(), packed.into()),
            _ => (Self::Plain, raw.into()),
        }
    }

    /// The codec for bytes that are not lines.
    fn without_columns(self) -> Self {
        match self {
            Self::Columns(level) | Self::ColumnsAlways(level) => Self::Zstd(level),
            codec => codec,
        }
    }

    /// Decompresses to exactly `raw_len` bytes, which the caller has bounded; `None` if the bytes are damaged.
    pub fn unpack(self, packed: &[u8], raw_len: usize) -> Option<Vec<u8>> {
        let raw = match self {
            Self::Plain => packed.to_vec(),
            Self::Lz4 => lz4_flex::block::decompress(packed, raw_len).ok()?,
            Self::Zstd(_) => zstd_context::decompress(packed, raw_len)?,
            // Columns need the number of lines.
            Self::Columns(_) | Self::ColumnsAlways(_) => return None,
        };
        (raw.len() == raw_len).then_some(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_round_trip(raw in prop::collection::vec(0_u8..4, 0..2_000)) {
            for codec in [Codec::Plain, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(3)] {
                let (used, packed) = codec.pack(&raw);
                let used = Codec::from_byte(used.byte()).unwrap();
                prop_assert_eq!(used.unpack(&packed, raw.len()), Some(raw.clone()));
                if !raw.is_empty() {
                    prop_assert_eq!(used.unpack(&packed, raw.len() - 1), None);
                }
            }
        }

        #[test]
        fn any_bytes_unpack_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200), raw_len in 0_usize..5_000) {
            for byte in 0..4 {
                let _ = Codec::from_byte(byte).map(|codec| codec.unpack(&bytes, raw_len));
            }
        }
    }
}
