//! Fields of JSON records, read in one pass and only as far as needed.
//!
//! A general JSON reader does not serve, because a record may be truncated or contain bytes that are not UTF-8, and
//! numbers are compared as written. The reader checks the grammar only on the path to a field. In skipped values it
//! counts strings and brackets, and takes any bare word for a number or literal.

use std::borrow::Cow;

use memchr::memmem;

use super::quoted::{quoted_length, unescape};

/// The greatest nesting of objects and arrays that are entered: deeper than logs nest, and safe for every stack.
const DEPTH_MAX: usize = 128;

/// Whether a record is read as JSON.
pub(super) fn is_json(record: &[u8]) -> bool {
    record.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// See [`super::lookup`].
pub(super) fn lookup<'a>(record: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    lookup_text(record, name).map(decoded_value)
}

/// The text of the value, with the quotes of a string.
pub(super) fn lookup_text<'a>(record: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    // Fields before a truncation count.
    let _ = find(&mut Reader { rest: record }, name.as_bytes(), 0, &mut found);
    found
}

/// See [`super::visit`].
pub(super) fn visit<'a>(record: &'a [u8], take: &mut dyn FnMut(&str, Cow<'a, [u8]>)) {
    let mut walk = FieldVisitor { name: String::new(), take };
    let _ = walk.visit_members(&mut Reader { rest: record }, 0);
}

/// Reads the next value and keeps the last one at `path`, which is not empty; an object or array only if there is no other. `None`
/// ends the traversal.
fn find<'a>(reader: &mut Reader<'a>, path: &[u8], depth: usize, found: &mut Option<&'a [u8]>) -> Option<()> {
    let mut members = reader.enter()?;
    while let Some(key) = reader.next_member(&mut members)? {
        let index;
        let key: &[u8] = match &key {
            MemberKey::Name(name) => name,
            MemberKey::Index(number) => {
                index = number.to_string();
                index.as_bytes()
            }
        };
        match path.strip_prefix(key) {
            Some([]) => {
                let value = reader.skip_value()?;
                if found.is_none_or(is_container) || !is_container(value) {
                    *found = Some(value);
                }
                if !is_container(value) && is_absent(path, reader.rest) {
                    return None;
                }
            }
            Some([b'.', rest @ ..]) if reader.is_container() && depth < DEPTH_MAX => {
                find(reader, rest, depth + 1, found)?;
            }
            _ => {
                reader.skip_value()?;
            }
        }
    }
    Some(())
}

/// Whether no further field of this path is in the rest of a record, which need not be read then: the last key of the path is not in
/// it, in whatever form.
fn is_absent(path: &[u8], rest: &[u8]) -> bool {
    let key = path.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    // Other bytes may be escaped in several ways, and numbers may be positions in an array.
    let is_word = key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-');
    is_word
        && key.iter().any(u8::is_ascii_alphabetic)
        && memmem::find(rest, key).is_none()
        && memmem::find(rest, b"\\u").is_none()
}

struct FieldVisitor<'w, 'a> {
    /// Of the value that comes next.
    name: String,
    take: &'w mut dyn FnMut(&str, Cow<'a, [u8]>),
}

impl<'a> FieldVisitor<'_, 'a> {
    /// Visits the members of the next object or array. `None` ends the traversal.
    fn visit_members(&mut self, reader: &mut Reader<'a>, depth: usize) -> Option<()> {
        let mut members = reader.enter()?;
        let length = self.name.len();
        while let Some(key) = reader.next_member(&mut members)? {
            let dot = if depth == 0 { "" } else { "." };
            match key {
                MemberKey::Name(name) => match str::from_utf8(&name) {
                    Ok(name) => self.name.extend([dot, name]),
                    Err(_) => {
                        reader.skip_value()?;
                        continue;
                    }
                },
                MemberKey::Index(index) => self.name.extend([dot, &index.to_string()]),
            }
            if reader.is_container() && depth < DEPTH_MAX {
                self.visit_members(reader, depth + 1)?;
            } else {
                let text = reader.skip_value()?;
                (self.take)(&self.name, decoded_value(text));
            }
            self.name.truncate(length);
        }
        Some(())
    }
}

/// The value of a value's text.
fn decoded_value(text: &[u8]) -> Cow<'_, [u8]> {
    match text {
        [b'"', inner @ .., b'"'] => unescape(inner),
        [b'{' | b'[', ..] => compact(text),
        other => Cow::Borrowed(other),
    }
}

/// The text of an object or array without space between its parts.
fn compact(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(u8::is_ascii_whitespace) {
        return Cow::Borrowed(text);
    }
    let mut kept = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let length = match first {
            b'"' => quoted_length(behind).map_or(rest.len(), |length| length + 2),
            byte if byte.is_ascii_whitespace() => 0,
            _ => 1,
        };
        kept.extend_from_slice(rest.get(..length).unwrap_or_default());
        rest = rest.get(length.max(1)..).unwrap_or_default();
    }
    Cow::Owned(kept)
}

/// The position of a reader in an object or array.
struct ContainerPosition {
    /// The next element of an array; `None` in an object.
    index: Option<usize>,
    first: bool,
}

enum MemberKey<'a> {
    Name(Cow<'a, [u8]>),
    Index(usize),
}

/// A reader of JSON text. All methods return `None` for truncated or invalid text.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn expect_byte(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn is_container(&self) -> bool {
        is_container(self.rest)
    }

    /// Enters the next object or array.
    fn enter(&mut self) -> Option<ContainerPosition> {
        self.skip_space();
        let (bracket, rest) = self.rest.split_first()?;
        self.rest = rest;
        match bracket {
            b'{' => Some(ContainerPosition { index: None, first: true }),
            b'[' => Some(ContainerPosition { index: Some(0), first: true }),
            _ => None,
        }
    }

    /// Moves to the value of the next member; `Some(None)` at the end of the object or array.
    fn next_member(&mut self, members: &mut ContainerPosition) -> Option<Option<MemberKey<'a>>> {
        self.skip_space();
        let close = if members.index.is_some() { b']' } else { b'}' };
        if self.rest.first() == Some(&close) {
            self.expect_byte(close)?;
            return Some(None);
        }
        if !members.first {
            self.expect_byte(b',')?;
            self.skip_space();
        }
        members.first = false;
        if let Some(index) = &mut members.index {
            *index += 1;
            return Some(Some(MemberKey::Index(*index - 1)));
        }
        self.expect_byte(b'"')?;
        let (name, behind) = self.rest.split_at_checked(quoted_length(self.rest)?)?;
        self.rest = behind;
        self.expect_byte(b'"')?;
        self.skip_space();
        self.expect_byte(b':')?;
        self.skip_space();
        Some(Some(MemberKey::Name(unescape(name))))
    }

    /// Skips the next value and returns its text.
    fn skip_value(&mut self) -> Option<&'a [u8]> {
        let length = match self.rest {
            [b'"', inner @ ..] => quoted_length(inner)? + 2,
            [b'{' | b'[', ..] => container_length(self.rest)?,
            // A word at the end of the text may be truncated.
            rest => rest.iter().position(|byte| !is_word(*byte)).filter(|length| *length > 0)?,
        };
        let (text, behind) = self.rest.split_at_checked(length)?;
        self.rest = behind;
        Some(text)
    }
}

/// Whether a text is an object or array.
fn is_container(text: &[u8]) -> bool {
    matches!(text, [b'{' | b'[', ..])
}

/// Whether numbers, `true`, `false` and `null` may contain a byte.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// The length of the object or array at the start of `text`.
fn container_length(text: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        match text.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => at += quoted_length(text.get(at + 1..)?)? + 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}
