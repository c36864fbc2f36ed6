//! Pairs of `key=value` anywhere in a line.
//!
//! ```text
//! line   = { token , blank }                        blank: one or more bytes of ASCII space
//! token  = key , "=" , ( '"' , quoted , '"' | value )
//!        | any other bytes but blanks               no field
//! key    = one or more bytes other than blanks, "=" and '"'
//! value  = bytes other than blanks, not starting with '"'; may be empty
//! quoted = bytes; \" \\ \n \r \t stand for one byte, any other backslash for itself
//! ```
//!
//! An unterminated quote ends the fields: the line was truncated, or is not logfmt.

use std::borrow::Cow;

use memchr::memchr;

use super::quoted::quoted_length;

/// The text of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueText<'a> {
    Bare(&'a [u8]),
    /// Without its quotes.
    Quoted(&'a [u8]),
}

impl<'a> ValueText<'a> {
    pub(super) fn value(self) -> Cow<'a, [u8]> {
        match self {
            Self::Bare(text) => Cow::Borrowed(text),
            Self::Quoted(text) => unquote(text),
        }
    }
}

/// The keys and values of `record`, in order.
pub(super) fn pairs(record: &[u8]) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
    LogfmtPairs { rest: record }.map(|(key, text)| (key, text.value()))
}

/// The text of the value of a field.
pub(super) fn lookup_text<'a>(record: &'a [u8], name: &str) -> Option<ValueText<'a>> {
    LogfmtPairs { rest: record }.filter(|(key, _)| *key == name.as_bytes()).last().map(|(_, text)| text)
}

struct LogfmtPairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for LogfmtPairs<'a> {
    type Item = (&'a [u8], ValueText<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if self.rest.is_empty() {
                return None;
            }
            let end = self.rest.iter().position(|byte| is_key_end(*byte)).unwrap_or(self.rest.len());
            let (key, behind) = self.rest.split_at(end);
            match behind {
                [b'=', b'"', quoted @ ..] => {
                    let Some(length) = quoted_length(quoted) else {
                        self.rest = &[];
                        return None;
                    };
                    let (value, behind) = quoted.split_at(length);
                    self.rest = after_token(behind);
                    if !key.is_empty() {
                        return Some((key, ValueText::Quoted(value)));
                    }
                }
                [b'=', value @ ..] => {
                    self.rest = after_token(value);
                    let value = value.get(..value.len() - self.rest.len()).unwrap_or_default();
                    if !key.is_empty() {
                        return Some((key, ValueText::Bare(value)));
                    }
                }
                _ => self.rest = after_token(behind),
            }
        }
    }
}

fn is_key_end(byte: u8) -> bool {
    byte == b'=' || byte == b'"' || byte.is_ascii_whitespace()
}

/// The text behind the current token.
fn after_token(text: &[u8]) -> &[u8] {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    text.get(end..).unwrap_or_default()
}

/// The value of a quoted text without its quotes.
pub(super) fn unquote(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut plain = Vec::with_capacity(value.len());
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => plain.push(b'\n'),
                Some(b'r') => plain.push(b'\r'),
                Some(b't') => plain.push(b'\t'),
                Some(byte @ (b'"' | b'\\')) => plain.push(byte),
                other => {
                    plain.push(b'\\');
                    plain.extend(other);
                }
            },
            byte => plain.push(byte),
        }
    }
    Cow::Owned(plain)
}
