//! Decompression of whole bodies and chunks up to a limit of the caller.

use std::io;

/// Why compressed bytes give no text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InflateError {
    /// The data is damaged or cut off.
    #[error("the {0} data is damaged or cut off: {1}")]
    Damaged(&'static str, #[source] io::Error),
    /// The text exceeds the limit.
    #[error("the decompressed data exceeds {0} bytes: send smaller batches")]
    TooLong(usize),
}

/// Replaces `text` by the text of a snappy block, which is what Loki's clients send.
///
/// The block states the length of its text; a length beyond `bytes_max` is refused before memory is allocated.
///
/// # Errors
/// [`InflateError`] if the block is damaged, or its text longer than `bytes_max`.
pub fn snappy(block: &[u8], bytes_max: usize, text: &mut Vec<u8>) -> Result<(), InflateError> {
    let damaged = |error: snap::Error| InflateError::Damaged("snappy", io::Error::other(error));
    let length = snap::raw::decompress_len(block).map_err(damaged)?;
    if length > bytes_max {
        return Err(InflateError::TooLong(bytes_max));
    }
    // No byte of a block gives more than 64 bytes of text, so a longer length is a lie that need not be allocated.
    if length > block.len().saturating_mul(64) {
        return Err(InflateError::Damaged("snappy", io::ErrorKind::InvalidData.into()));
    }
    text.resize(length, 0);
    let written = snap::raw::Decoder::new().decompress(block, text).map_err(damaged)?;
    text.truncate(written);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded_and_damage_is_an_error() {
        let bomb = vec![0; 1 << 20];
        let packed = snap::raw::Encoder::new().compress_vec(&bomb).unwrap();
        let mut text = b"before".to_vec();
        snappy(&packed, bomb.len(), &mut text).unwrap();
        assert_eq!(text, bomb);
        let mut text = Vec::new();
        assert!(matches!(snappy(&packed, bomb.len() - 1, &mut text), Err(InflateError::TooLong(_))));
        assert_eq!(text.capacity(), 0);
        let half = &packed[..packed.len() / 2];
        assert!(matches!(snappy(half, bomb.len(), &mut text), Err(InflateError::Damaged(..))));
    }

    #[test]
    fn a_stated_length_that_cannot_be_true_is_not_allocated() {
        // A block of 5 bytes that states 1 GiB of text.
        let lie = [0x80, 0x80, 0x80, 0x80, 0x04];
        let mut text = Vec::new();
        assert!(matches!(snappy(&lie, usize::MAX, &mut text), Err(InflateError::Damaged(..))));
        assert_eq!(text.capacity(), 0);
    }
}
