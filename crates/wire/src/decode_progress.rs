//! The result of decoding bytes that may be incomplete.

use bucksaw_binary::ByteReader;

use crate::WireError;

/// A complete message, or the number of missing bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeProgress<T> {
    /// At least this number of further bytes is needed; never 0.
    Incomplete(usize),
    /// The message and its length in bytes.
    Complete(T, usize),
}

impl<T> DecodeProgress<T> {
    /// The number of missing bytes; 0 if the message is complete.
    pub fn missing_bytes(&self) -> usize {
        match self {
            Self::Incomplete(missing) => *missing,
            Self::Complete(..) => 0,
        }
    }

    pub(crate) fn try_map<U>(
        self,
        convert: impl FnOnce(T) -> Result<U, WireError>,
    ) -> Result<DecodeProgress<U>, WireError> {
        match self {
            Self::Incomplete(missing) => Ok(DecodeProgress::Incomplete(missing)),
            Self::Complete(message, length) => Ok(DecodeProgress::Complete(convert(message)?, length)),
        }
    }
}

/// Splits a message into its fields, the first `fixed_len` bytes, and the bytes that follow them. `read_length` checks the
/// fields and returns the number of bytes that follow.
pub(crate) fn split_message<'a, F>(
    bytes: &'a [u8],
    fixed_len: usize,
    read_fields: impl FnOnce(&mut ByteReader<'a>) -> Option<F>,
    read_length: impl FnOnce(&F) -> Result<usize, WireError>,
) -> Result<DecodeProgress<(F, &'a [u8])>, WireError> {
    let mut reader = ByteReader(bytes);
    let Some(fields) = read_fields(&mut reader) else {
        return Ok(DecodeProgress::Incomplete(fixed_len.saturating_sub(bytes.len())));
    };
    let length = read_length(&fields)?;
    Ok(match reader.bytes(length) {
        Some(rest) => DecodeProgress::Complete((fields, rest), fixed_len + length),
        None => DecodeProgress::Incomplete(fixed_len + length - bytes.len()),
    })
}
