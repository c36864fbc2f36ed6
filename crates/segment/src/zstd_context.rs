//! Zstandard with a context per thread for small inputs such as footers: creating a context takes longer than compressing them.
//! Large inputs need much memory, so their context exists only during compression.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// Maximum size of a small input, in bytes. The tables of zstd grow with the input.
const SMALL_BYTES: usize = 64 << 10;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses at a level of 1 to 19.
///
/// # Errors
/// If memory cannot be allocated.
pub(crate) fn compress(raw: &[u8], level: i32) -> io::Result<Vec<u8>> {
    if raw.len() > SMALL_BYTES {
        return zstd::bulk::compress(raw, level);
    }
    COMPRESSOR.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            none => none.insert(Compressor::new(level)?),
        };
        packer.set_compression_level(level)?;
        packer.compress(raw)
    })
}

/// Decompresses at most `raw_len` bytes; `None` if the bytes are damaged.
pub(crate) fn decompress(packed: &[u8], raw_len: usize) -> Option<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Decompressor::new().ok()?),
        };
        unpacker.decompress(packed, raw_len).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_also_after_damaged_input() {
        for copies in [20, 20_000] {
            let raw = b"footer footer footer footer".repeat(copies);
            let packed = compress(&raw, 3).unwrap();
            assert!(packed.len() < raw.len());
            assert_eq!(decompress(&packed[1..], raw.len()), None);
            assert_eq!(decompress(&packed, raw.len() - 1), None);
            assert_eq!(decompress(&packed, raw.len()).as_deref(), Some(&raw[..]));
            assert_eq!(compress(&raw, 3).unwrap(), packed);
        }
    }

    #[test]
    fn compression_levels_are_independent() {
        let raw: Vec<u8> =
            (0..20_000_u32).flat_map(|number| (number % 977 * number % 89).to_string().into_bytes()).collect();
        let raw = &raw[..SMALL_BYTES.min(raw.len())];
        for level in [1, 9, 3, 19, 1, 3] {
            assert_eq!(compress(raw, level).unwrap(), zstd::bulk::compress(raw, level).unwrap(), "{level}");
        }
    }
}
