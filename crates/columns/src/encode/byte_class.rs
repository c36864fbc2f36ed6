//! Classes of bytes by which text is tokenised.

/// The class of a byte in the tokeniser, ordered by how strongly it splits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ByteClass {
    Digit,
    Letter,
    /// Belongs to a token inside it and to the delimiter at its ends.
    Connector,
    Delimiter,
    Quote,
}

const BYTE_CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Letter; 256];
    let mut byte = 1;
    while byte < 0x80 {
        let at = byte as u8;
        classes[byte] = match at {
            b'0'..=b'9' => ByteClass::Digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => ByteClass::Letter,
            b'"' => ByteClass::Quote,
            b'.' | b':' | b'/' | b'-' | b'@' | b'+' | b'%' | b'#' | b'$' | b'~' | b'&' | b'?' | b'^' => {
                ByteClass::Connector
            }
            _ => ByteClass::Delimiter,
        };
        byte += 1;
    }
    classes
};

pub(crate) fn byte_class(byte: u8) -> ByteClass {
    BYTE_CLASSES[byte as usize]
}
