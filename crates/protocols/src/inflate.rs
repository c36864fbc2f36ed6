//! Decompression of whole bodies and chunks up to a limit of the caller.

use std::io::{self, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use zstd::stream::read::Decoder as ZstdDecoder;

/// The longest window of zstd, as a power of two: 8 MiB, which every decoder should support. The library would allocate up
/// to 128 MiB if a frame states such a window.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

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

/// Replaces `text` by the text of gzip data: one member, or several one after the other.
///
/// # Errors
/// [`InflateError`] if the data is damaged, or its text longer than `bytes_max`; no more than that is decompressed.
pub(crate) fn gzip(packed: &[u8], bytes_max: usize, text: &mut Vec<u8>) -> Result<(), InflateError> {
    read_text("gzip", MultiGzDecoder::new(packed), bytes_max, text)
}

/// Replaces `text` by the text of zlib data.
///
/// # Errors
/// As [`gzip`].
pub(crate) fn zlib(packed: &[u8], bytes_max: usize, text: &mut Vec<u8>) -> Result<(), InflateError> {
    read_text("zlib", ZlibDecoder::new(packed), bytes_max, text)
}

/// Replaces `text` by the text of zstd data: one frame, or several one after the other.
///
/// # Errors
/// [`InflateError`] if the data is damaged or needs a window of more than 8 MiB, or its text is longer than `bytes_max`; no
/// more than that is decompressed.
pub(crate) fn zstd(packed: &[u8], bytes_max: usize, text: &mut Vec<u8>) -> Result<(), InflateError> {
    let damaged = |error| InflateError::Damaged("zstd", error);
    let mut decoder = ZstdDecoder::with_buffer(packed).map_err(damaged)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(damaged)?;
    read_text("zstd", decoder, bytes_max, text)
}

fn read_text(name: &'static str, decoder: impl Read, bytes_max: usize, text: &mut Vec<u8>) -> Result<(), InflateError> {
    text.clear();
    let read = decoder.take(bytes_max as u64 + 1).read_to_end(text);
    if text.len() > bytes_max {
        return Err(InflateError::TooLong(bytes_max));
    }
    read.map(drop).map_err(|error| InflateError::Damaged(name, error))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip_of(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd_of(text: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(text, 3).unwrap()
    }

    type Inflate = fn(&[u8], usize, &mut Vec<u8>) -> Result<(), InflateError>;

    #[test]
    fn members_and_frames_one_after_the_other_are_one_text_up_to_the_limit() {
        let bomb = vec![0; 8 << 20];
        for (inflate, pack) in [(gzip as Inflate, gzip_of as fn(&[u8]) -> Vec<u8>), (super::zstd, zstd_of)] {
            let mut text = b"before".to_vec();
            inflate(&[pack(b"ab"), pack(b""), pack(b"c")].concat(), 3, &mut text).unwrap();
            assert_eq!(text, b"abc");
            assert!(matches!(inflate(&pack(b"abcd"), 3, &mut text), Err(InflateError::TooLong(3))));
            assert!(matches!(inflate(&pack(&bomb), 1 << 10, &mut text), Err(InflateError::TooLong(_))));
            assert!(text.capacity() < 1 << 20, "{}", text.capacity());
            let packed = pack(b"some text");
            for length in 1..packed.len() {
                let cut = inflate(&packed[..length], 100, &mut text);
                assert!(matches!(cut, Err(InflateError::Damaged(..))), "{length} of {}", packed.len());
            }
            assert!(inflate(&[&packed[..], b"x"].concat(), 100, &mut text).is_err());
        }
    }

    #[test]
    fn a_window_of_zstd_is_bounded() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(24).unwrap();
        encoder.write_all(&vec![7; 1 << 10]).unwrap();
        let packed = encoder.finish().unwrap();
        assert!(matches!(super::zstd(&packed, 1 << 20, &mut Vec::new()), Err(InflateError::Damaged(..))));
    }
}
