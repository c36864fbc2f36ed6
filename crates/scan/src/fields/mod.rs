//! Fields of records, read from JSON or logfmt on demand.
//!
//! A record whose first byte that is not blank is `{` is read as JSON, any other as logfmt. Filters and lists of fields use one
//! reader, so every listed field can be filtered by:
//!
//! - **JSON.** Names of nested values are joined by dots, an array's elements are numbered from 0: `user.id`, `tags.0`.
//!   A key that contains dots is found too. The value of a string is its unescaped text; that of a number, `true`, `false` or
//!   `null` is its text; that of an object or array is its text without space between the parts.
//! - **logfmt.** `key=value` and `key="a \"quoted\" value"`, where a token starts: at the start or behind ASCII space.
//!   So text that contains such pairs has fields too.
//! - The last value of a name counts; an object or array counts only if no other value has the name.
//! - A truncated or invalid record has the fields up to that point, without a truncated value.
//! - Objects and arrays more than 128 levels deep are not entered; they are values as a whole.
//!
//! ```
//! use bucksaw_scan::fields::lookup;
//! assert_eq!(lookup(br#"{"user":{"id":42}}"#, "user.id").as_deref(), Some(&b"42"[..]));
//! assert_eq!(lookup(br#"GET / status=200 agent="a b""#, "agent").as_deref(), Some(&b"a b"[..]));
//! ```

mod json;
pub(crate) mod layout;
mod logfmt;
mod quoted;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use bucksaw_record::RecordView;

pub(crate) use layout::FieldRole;

/// The value of the field `name` of `record`; `None` if the record has no such field.
#[must_use]
pub fn lookup<'a>(record: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    if json::is_json(record) {
        return json::lookup(record, name);
    }
    logfmt::lookup_text(record, name).map(logfmt::ValueText::value)
}

/// The value of a field of a record whose stream has no such label: its attribute of this name, else the key of its line.
pub fn lookup_record<'a>(record: RecordView<'a>, name: &str) -> Option<Cow<'a, [u8]>> {
    record.attribute(name).map(Cow::Borrowed).or_else(|| lookup(record.line(), name))
}

/// Calls `take` with the name and value of up to `limit` fields of `record`, each name once, in the order of their first
/// values. The value is that of [`lookup`]. Objects and arrays are visited by their members only. Names that are not UTF-8
/// are left out.
pub fn visit(record: &[u8], limit: usize, take: &mut dyn FnMut(&str, Cow<'_, [u8]>)) {
    visit_pairs(record, limit, |_, _| true, take);
}

/// As [`visit`], without names of logfmt pairs that are no [plain names](is_plain_name).
///
/// Free text has many tokens with an equals sign: queries of URLs, calls in traces, the ends of base64. All are fields for a
/// filter, but a list of fields that shows them hides the others.
pub fn visit_named(record: &[u8], limit: usize, take: &mut dyn FnMut(&str, Cow<'_, [u8]>)) {
    visit_pairs(record, limit, |name, value| is_plain_name(name) && !is_base64_end(name, value), take);
}

/// As [`visit`], with the logfmt pairs that `is_wanted` accepts.
fn visit_pairs(
    record: &[u8],
    limit: usize,
    is_wanted: fn(&str, &[u8]) -> bool,
    take: &mut dyn FnMut(&str, Cow<'_, [u8]>),
) {
    let mut fields = DistinctFields { list: Vec::new(), places: HashMap::new(), limit };
    if json::is_json(record) {
        json::visit(record, &mut |name, value| fields.put(name, value));
    } else {
        for (name, value) in logfmt::pairs(record) {
            if let Ok(name) = str::from_utf8(name)
                && is_wanted(name, &value)
            {
                fields.put(name, value);
            }
        }
    }
    fields.list.into_iter().for_each(|(name, value)| take(&name, value));
}

/// Fields by name, in the order of their first values.
struct DistinctFields<'a> {
    list: Vec<(String, Cow<'a, [u8]>)>,
    places: HashMap<String, usize>,
    limit: usize,
}

impl<'a> DistinctFields<'a> {
    fn put(&mut self, name: &str, value: Cow<'a, [u8]>) {
        match self.places.get(name) {
            Some(place) => {
                if let Some((_, last)) = self.list.get_mut(*place) {
                    *last = value;
                }
            }
            None if self.list.len() < self.limit => {
                self.places.insert(name.to_owned(), self.list.len());
                self.list.push((name.to_owned(), value));
            }
            None => {}
        }
    }
}

/// Whether text looks like a name of a program's field: parts of letters, digits, `_`, `-` and `@`, joined by single
/// `.`, `:` or `/`. It starts with a letter, `_` or `@`.
///
/// ```
/// use bucksaw_scan::fields::is_plain_name;
/// assert!(["user.id", "@timestamp", "app.kubernetes.io/name", "größe"].into_iter().all(is_plain_name));
/// assert!(!["/search?q", "call(arg", "https://a/b", "5:10", "-x", ""].into_iter().any(is_plain_name));
/// ```
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|char| char.is_alphanumeric() || "_-@".contains(char));
    name.starts_with(|first: char| first.is_alphabetic() || first == '_' || first == '@')
        && name.split(['.', ':', '/']).all(is_part)
}

/// Whether a pair is the end of a text in base64, `…3Fh=` or `…3Fh==`, and no field.
fn is_base64_end(key: &str, value: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| key.bytes().any(|byte| is(&byte));
    matches!(value, b"" | b"=")
        && key.len() >= BASE64_BYTES_MIN
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
}

/// Longer words of capitals, small letters and digits without a value are no names.
const BASE64_BYTES_MIN: usize = 16;
