//! Quoted strings: their end in JSON and logfmt, and their value in JSON.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// The offset of the closing quote, if any. `inner` starts behind the opening quote.
pub(super) fn quoted_length(inner: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', inner.get(at..)?)?;
        if inner.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// The value of a string without its quotes. An escape that JSON does not define is kept. Half of a surrogate pair,
/// which programs that truncate strings produce, becomes the replacement character.
pub(super) fn unescape(inner: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut plain = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&first, behind)) = rest.split_first() {
        if first != b'\\' {
            let length = memchr(b'\\', rest).unwrap_or(rest.len());
            let (run, behind) = rest.split_at(length);
            plain.extend_from_slice(run);
            rest = behind;
            continue;
        }
        rest = behind.get(1..).unwrap_or_default();
        match behind.first() {
            Some(byte @ (b'"' | b'\\' | b'/')) => plain.push(*byte),
            Some(b'b') => plain.push(8),
            Some(b'f') => plain.push(12),
            Some(b'n') => plain.push(b'\n'),
            Some(b'r') => plain.push(b'\r'),
            Some(b't') => plain.push(b'\t'),
            Some(b'u') if hex_code_unit(rest).is_some() => rest = unescape_code_unit(rest, &mut plain),
            other => {
                plain.push(b'\\');
                plain.extend(other);
            }
        }
    }
    Cow::Owned(plain)
}

/// Appends the character behind a `\u`, and returns the rest.
fn unescape_code_unit<'a>(digits: &'a [u8], plain: &mut Vec<u8>) -> &'a [u8] {
    let mut rest = digits.get(4..).unwrap_or_default();
    let mut code = hex_code_unit(digits).unwrap_or_default();
    if (0xd800..0xdc00).contains(&code)
        && let Some(low) =
            rest.strip_prefix(b"\\u").and_then(hex_code_unit).filter(|low| (0xdc00..0xe000).contains(low))
    {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        rest = rest.get(6..).unwrap_or_default();
    }
    let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    plain.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    rest
}

/// The number written as four hexadecimal digits.
fn hex_code_unit(digits: &[u8]) -> Option<u32> {
    let four = digits.get(..4).filter(|four| four.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(str::from_utf8(four).ok()?, 16).ok()
}
