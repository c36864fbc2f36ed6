//! Fields of records: read when they are asked for, from JSON or logfmt.
//!
//! A record whose first byte that is not blank is `{` is read as JSON, any other as logfmt. One reader serves filters
//! and lists of fields, so that what is listed can be filtered by:
//!
//! - **JSON.** Names of nested values are joined by dots, an array's elements are numbered from 0: `user.id`, `tags.0`.
//!   A key that itself has dots is found too. The value of a string is what it says, without its escapes; that of a
//!   number, `true`, `false` or `null` is its text; that of an object or array is its text without the space between.
//! - **logfmt.** `key=value` and `key="a \"quoted\" value"`, where a token starts: at the start or behind ASCII space.
//!   So text with such pairs in it has fields too.
//! - The last value of a name counts.
//! - A record that breaks off or goes wrong has the fields up to there; a value that is cut short is none of them.
//! - Objects and arrays more than 128 levels deep are not looked into; they are values as a whole.
//!
//! ```
//! use bucksaw_scan::fields::lookup;
//! assert_eq!(lookup(br#"{"user":{"id":42}}"#, "user.id").as_deref(), Some(&b"42"[..]));
//! assert_eq!(lookup(br#"GET / status=200 agent="a b""#, "agent").as_deref(), Some(&b"a b"[..]));
//! ```

mod json;
mod logfmt;
mod quoted;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

/// The value of the field `name` of `record`; `None` when there is no such field.
#[must_use]
pub fn lookup<'a>(record: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    if is_json(record) {
        return json::lookup(record, name);
    }
    logfmt::pairs(record).filter(|(key, _)| *key == name.as_bytes()).last().map(|(_, value)| value)
}

/// Calls `take` with the name and value of up to `limit` fields of `record`, in their order. Objects and arrays are
/// not listed by themselves, what is in them is. Names that are not UTF-8 are left out.
pub fn visit(record: &[u8], limit: usize, take: &mut dyn FnMut(&str, Cow<'_, [u8]>)) {
    if is_json(record) {
        return json::visit(record, limit, take);
    }
    let named = logfmt::pairs(record).filter_map(|(key, value)| Some((str::from_utf8(key).ok()?, value)));
    named.take(limit).for_each(|(name, value)| take(name, value));
}

/// The number that a value is: finite, decimal, with or without sign, fraction and exponent.
pub(crate) fn number(value: &[u8]) -> Option<f64> {
    let shape = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let text = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| shape(&byte)))?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn is_json(record: &[u8]) -> bool {
    record.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}
