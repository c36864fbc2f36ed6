//! Which ASCII bytes a text writes as an escape of JSON.
//!
//! A search for the value of a field must expect each byte of it in the form of an escape. Programs escape few bytes, so nearly
//! all values can be found by their text.

use bucksaw_search::AsciiSet;

/// A text with more than one backslash in this many bytes is not read to its end.
const BYTES_PER_BACKSLASH_MIN: usize = 8;

/// The escapes of one letter in RFC 8259, section 7, with the bytes that they stand for.
const SHORT_ESCAPES: [(u8, u8); 8] =
    [(b'"', b'"'), (b'\\', b'\\'), (b'/', b'/'), (b'b', 8), (b'f', 12), (b'n', b'\n'), (b'r', b'\r'), (b't', b'\t')];

/// The ASCII bytes that an escape in the text stands for; all if the text has many backslashes. It contains those of what only
/// looks like an escape, such as the `\n` behind a backslash.
pub(super) fn escaped_bytes(text: &[u8]) -> AsciiSet {
    let mut found = AsciiSet::default();
    for (number, at) in memchr::memchr_iter(b'\\', text).enumerate() {
        if number > text.len() / BYTES_PER_BACKSLASH_MIN {
            return AsciiSet::ALL;
        }
        let behind = text.get(at + 1..).unwrap_or_default();
        let Some(letter) = behind.first() else { break };
        if let Some((_, byte)) = SHORT_ESCAPES.iter().find(|(short, _)| short == letter) {
            found.insert(*byte);
        } else if let Some(&[high, low]) = behind.strip_prefix(b"u00").and_then(<[u8]>::first_chunk)
            && let (Some(high), Some(low)) = (char::from(high).to_digit(16), char::from(low).to_digit(16))
        {
            found.insert((high * 16 + low) as u8);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(bytes: &[u8]) -> AsciiSet {
        let mut set = AsciiSet::default();
        bytes.iter().for_each(|byte| set.insert(*byte));
        set
    }

    #[test]
    fn escapes_are_read() {
        let filler = "x".repeat(200);
        for (text, want) in [
            ("no escape", &b""[..]),
            (r"a\/b\u0041\u007a\u007A\u00e9\u20ac", b"/Az"),
            (r#"\"\\\b\f\n\r\t"#, b"\"\\\x08\x0c\n\r\t"),
            (r"\u001B[0m \u00g1 \u1041 \U0042 \x \u00", b"\x1b"),
            (r"at the end \u004", b""),
            (r"at the end \", b""),
            (r"\\u0041", b"\\A"),
        ] {
            assert_eq!(escaped_bytes(format!("{filler}{text}").as_bytes()), set(want), "{text}");
        }
        assert_eq!(escaped_bytes(&b"\\".repeat(100)), AsciiSet::ALL);
    }
}
