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
mod logfmt;
mod quoted;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

/// The value of the field `name` of `record`; `None` if the record has no such field.
#[must_use]
pub fn lookup<'a>(record: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    if is_json(record) {
        return json::lookup(record, name);
    }
    logfmt::pairs(record).filter(|(key, _)| *key == name.as_bytes()).last().map(|(_, value)| value)
}

/// Calls `take` with the name and value of up to `limit` fields of `record`, each name once, in the order of their first
/// values. The value is that of [`lookup`]. Objects and arrays are visited by their members only. Names that are not UTF-8
/// are left out.
pub fn visit(record: &[u8], limit: usize, take: &mut dyn FnMut(&str, Cow<'_, [u8]>)) {
    let mut fields = DistinctFields { list: Vec::new(), places: HashMap::new(), limit };
    if is_json(record) {
        json::visit(record, &mut |name, value| fields.put(name, value));
    } else {
        for (name, value) in logfmt::pairs(record) {
            if let Ok(name) = str::from_utf8(name) {
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

fn is_json(record: &[u8]) -> bool {
    record.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}
