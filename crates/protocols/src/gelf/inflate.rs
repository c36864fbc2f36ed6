//! Messages compressed with gzip or zlib, up to a limit.

use std::io::Read as _;

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

use super::GelfError;

/// Whether a message is compressed; the first bytes show it.
pub(super) fn is_compressed(message: &[u8]) -> bool {
    is_gzip(message) || is_zlib(message)
}

/// Replaces `text` by the decompressed message.
///
/// # Errors
/// [`GelfError::Compression`], or [`GelfError::TooLong`] beyond `bytes_max`; no more than that is decompressed.
pub(super) fn inflate(message: &[u8], bytes_max: usize, text: &mut Vec<u8>) -> Result<(), GelfError> {
    text.clear();
    let limit = bytes_max as u64 + 1;
    let read = if is_gzip(message) {
        MultiGzDecoder::new(message).take(limit).read_to_end(text)
    } else {
        ZlibDecoder::new(message).take(limit).read_to_end(text)
    };
    read.map_err(GelfError::Compression)?;
    if text.len() > bytes_max { Err(GelfError::TooLong(bytes_max)) } else { Ok(()) }
}

fn is_gzip(message: &[u8]) -> bool {
    message.starts_with(b"\x1f\x8b")
}

/// A zlib header is deflate with a window of at most 32 KiB, and a multiple of 31.
fn is_zlib(message: &[u8]) -> bool {
    matches!(message, [method, flags, ..] if method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}
