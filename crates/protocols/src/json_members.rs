//! Reads JSON objects member by member, without a tree.
//!
//! `serde_json` checks the syntax and finds the bounds of each value in one pass. A value stays a slice of the text, so
//! unused members cost no allocation.

use std::borrow::Cow;
use std::fmt;

use bucksaw_record::time::{event_time_number, event_time_text};
use bucksaw_record::{AttributeNames, Millis};
use memchr::memchr;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::StrRead;
use serde_json::value::RawValue;

use crate::AttributeList;
use crate::stream_labels::StreamLabels;
use crate::syslog::severity_name;

/// A position in JSON text.
pub(crate) type JsonText<'de> = serde_json::Deserializer<StrRead<'de>>;

/// The maximum depth to which [`push_flattened`] opens objects. A deeper object stays JSON text.
const FLATTEN_DEPTH_MAX: u32 = 8;

/// Reads one object, and calls `visit` with the name and the JSON text of each member. Text may follow the object.
///
/// # Errors
/// The text does not start with an object, or its syntax is wrong. Members before the error were visited.
pub(crate) fn read_object<'de>(
    json: &mut JsonText<'de>,
    visit: impl FnMut(&str, &'de str),
) -> Result<(), serde_json::Error> {
    json.deserialize_map(MembersVisitor(visit))
}

/// Reads text that is one object, as [`read_object`] does.
///
/// # Errors
/// The bytes are not UTF-8, or not exactly one object.
pub(crate) fn read_only_object<'de>(
    text: &'de [u8],
    visit: impl FnMut(&str, &'de str),
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(utf8(text)?);
    read_object(&mut json, visit)?;
    json.end()
}

/// Reads text that is one array, and calls `visit` with the JSON text of each item until it fails.
///
/// # Errors
/// The first error of `visit`, or the text is not exactly one array. Items before the error were visited.
pub(crate) fn read_items<'de, E: From<serde_json::Error>>(
    text: &'de str,
    visit: impl FnMut(&'de str) -> Result<(), E>,
) -> Result<(), E> {
    let mut items = ItemsVisitor { visit, failed: None };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json.deserialize_seq(&mut items).and_then(|()| json.end());
    match items.failed {
        Some(error) => Err(error),
        None => Ok(read?),
    }
}

/// The text of JSON, which is UTF-8.
pub(crate) fn utf8(text: &[u8]) -> Result<&str, serde_json::Error> {
    str::from_utf8(text).map_err(|error| Error::custom(format_args!("invalid UTF-8 at byte {}", error.valid_up_to())))
}

/// The text of a string; `None` for other values. An escape that is no character (half of a surrogate pair) leaves the
/// whole string as it is written.
pub(crate) fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    Some(serde_json::from_str(json).map_or(Cow::Borrowed(inner), Cow::Owned))
}

/// The text of a value: of a string its content, of any other value its JSON. Empty for `null`.
pub(crate) fn text(json: &str) -> Cow<'_, str> {
    if json == "null" { Cow::Borrowed("") } else { string(json).unwrap_or(Cow::Borrowed(json)) }
}

/// Adds a value as a label, or `default` if it is not stated.
pub(crate) fn push_label(
    labels: &mut StreamLabels,
    name: &str,
    json: &str,
    default: &str,
    attributes: &mut AttributeList,
) {
    let value = text(json);
    labels.push(name, if value.is_empty() { default } else { &value }, attributes);
}

/// Adds a value as an attribute, as [`text`]; `null` is no attribute.
pub(crate) fn push_value(attributes: &mut AttributeList, name: &str, json: &str) {
    if json != "null" {
        attributes.push(name, text(json).as_bytes());
    }
}

/// Adds a severity as the attribute `severity_text`: a number of syslog by its name, and other text as it is.
pub(crate) fn push_severity(attributes: &mut AttributeList, json: &str) {
    let severity = text(json);
    let name = severity.trim().parse().ok().and_then(severity_name);
    if !severity.is_empty() {
        attributes.push("severity_text", name.unwrap_or(&severity).as_bytes());
    }
}

/// The time that a value states: RFC 3339 text, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970,
/// also as a string.
pub(crate) fn stated_time(json: &str) -> Option<(Millis, u32)> {
    match string(json) {
        Some(text) => event_time_text(text.as_bytes()).or_else(|| event_time_number(text.trim())),
        None => event_time_number(json),
    }
}

/// Adds a value as [`push_value`] does, but the members of an object as attributes `name.member`.
pub(crate) fn push_flattened(attributes: &mut AttributeList, name: &str, json: &str) {
    let mut path = String::from(name);
    push_below(attributes, &mut path, json, FLATTEN_DEPTH_MAX);
}

fn push_below(attributes: &mut AttributeList, path: &mut String, json: &str, depth_left: u32) {
    // A name that is too long is refused by the sink. It is not copied for each member of its object before that.
    let is_long = path.len() > AttributeNames::NAME_BYTES_MAX;
    if depth_left == 0 || is_long || !json.starts_with('{') {
        return push_value(attributes, path, json);
    }
    let mut is_empty = true;
    // The value was read once, so it has no error.
    let _ = read_only_object(json.as_bytes(), |name, value| {
        is_empty = false;
        let length = path.len();
        path.push('.');
        path.push_str(name);
        push_below(attributes, path, value, depth_left - 1);
        path.truncate(length);
    });
    if is_empty {
        push_value(attributes, path, json);
    }
}

struct ItemsVisitor<F, E> {
    visit: F,
    failed: Option<E>,
}

impl<'de, E, F: FnMut(&'de str) -> Result<(), E>> Visitor<'de> for &mut ItemsVisitor<F, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&'de RawValue>()? {
            if let Err(error) = (self.visit)(item.get()) {
                self.failed = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

struct MembersVisitor<F>(F);

impl<'de, F: FnMut(&str, &'de str)> Visitor<'de> for MembersVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(MemberName(name)) = map.next_key()? {
            let value = map.next_value::<&'de RawValue>()?;
            (self.0)(&name, value.get());
        }
        Ok(())
    }
}

/// Borrows the name of a member if it has no escapes; `Cow` itself would always copy it.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_visited_in_order_as_written() {
        let check = |text: &[u8], want: &str| {
            let mut found = String::new();
            let result = read_only_object(text, |name, value| found.push_str(&format!("{name}={value};")));
            let got = result.map_or_else(|error| error.to_string(), |()| found);
            assert_eq!(got, want, "{}", text.escape_ascii());
        };
        check(br#" {"a":1, "b" : {"c":[1, 2]},"a":"x\n"} "#, r#"a=1;b={"c":[1, 2]};a="x\n";"#);
        check(br#"{"\u0061":null}"#, "a=null;");
        check(b"{}", "");
        check(b"[1]", "invalid type: sequence, expected a JSON object at line 1 column 0");
        check(b"{} x", "trailing characters at line 1 column 4");
        check(b"{\"a\":\"\xff\"}", "invalid UTF-8 at byte 6");
        check(br#"{"a":"#, "EOF while parsing a value at line 1 column 5");
        let deep = [b"{\"a\":".as_slice(), "[".repeat(100_000).as_bytes()].concat();
        assert!(read_only_object(&deep, |_, _| ()).is_err());
    }

    #[test]
    fn values_become_text() {
        let check = |json: &str, want: &str| assert_eq!(text(json), want, "{json}");
        check(r#""a b""#, "a b");
        check(r#""a\n\u00e4\ud83d\ude00""#, "a\nä😀");
        check(r#""a\ud800""#, r"a\ud800");
        check("1.50", "1.50");
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
        check("null", "");
        check("true", "true");
    }

    #[test]
    fn objects_are_flattened_to_a_depth() {
        let flat = |json: &str| {
            let mut list = AttributeList::default();
            push_flattened(&mut list, "n", json);
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            list.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(";")
        };
        assert_eq!(flat(r#"{"a":{"b":1,"c":"x"},"d":[1],"e":null,"f":{}}"#), "n.a.b=1;n.a.c=x;n.d=[1];n.f={}");
        assert_eq!(flat("7"), "n=7");
        let long = "n".repeat(256);
        let mut list = AttributeList::default();
        push_flattened(&mut list, &long, r#"{"a":1,"b":2}"#);
        assert_eq!(list.iter().collect::<Vec<_>>(), [(&*long, &br#"{"a":1,"b":2}"#[..])], "copied once");
        let deep = format!("{}1{}", "{\"a\":".repeat(10), "}".repeat(10));
        assert_eq!(flat(&deep), r#"n.a.a.a.a.a.a.a.a={"a":{"a":1}}"#);
    }
}
