//! Fields that several messages have.

use bucksaw_binary::ByteReader;

use crate::{MAGIC, TEXT_BYTES_MAX, WireError, WireVersion};

/// Fails if the first bytes, as far as they have arrived, are not [`MAGIC`].
pub(crate) fn check_magic(bytes: &[u8]) -> Result<(), WireError> {
    let begins_as_magic = MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes));
    if begins_as_magic { Ok(()) } else { Err(WireError::Magic) }
}

/// The magic and the version, with which every connection starts.
pub(crate) fn read_version(reader: &mut ByteReader<'_>) -> Option<WireVersion> {
    reader.bytes(MAGIC.len())?;
    Some(WireVersion { major: reader.u16()?, minor: reader.u16()? })
}

/// The length of a text from its field.
pub(crate) fn text_length(field: u16) -> Result<usize, WireError> {
    let length = usize::from(field);
    if length > TEXT_BYTES_MAX { Err(WireError::TextTooLong(field)) } else { Ok(length) }
}

/// The longest prefix of a text that fits, in whole characters, and its length.
pub(crate) fn truncate_text(text: &str) -> (&str, u16) {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (text.get(..end).unwrap_or_default(), u16::try_from(end).unwrap_or(u16::MAX))
}

/// A text of the other side with control characters replaced, because it is printed on terminals.
pub(crate) fn sanitize_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}
