//! Packs and unpacks footers. What zstd needs for that is kept with the thread: making it takes longer than a small footer.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// A footer is a hundredth of its segment, so a little time packs it well enough.
const LEVEL: i32 = 3;

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Packs a footer.
///
/// # Errors
/// When there is no memory for it.
pub(super) fn pack(raw: &[u8]) -> io::Result<Vec<u8>> {
    PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            none => none.insert(Compressor::new(LEVEL)?),
        };
        packer.compress(raw)
    })
}

/// Unpacks at most `raw_len` bytes; `None` when the bytes are damaged.
pub(super) fn unpack(packed: &[u8], raw_len: usize) -> Option<Vec<u8>> {
    UNPACKER.with_borrow_mut(|unpacker| {
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
    fn footers_come_back_also_after_one_that_is_damaged() {
        let raw = b"footer footer footer footer".repeat(20);
        let packed = pack(&raw).unwrap();
        assert!(packed.len() < raw.len());
        assert_eq!(unpack(&packed[1..], raw.len()), None);
        assert_eq!(unpack(&packed, raw.len() - 1), None);
        assert_eq!(unpack(&packed, raw.len()).as_deref(), Some(&raw[..]));
        assert_eq!(pack(&raw).unwrap(), packed);
    }
}
