//! The fields of a status, formatted by the unit that their key ends in.

use serde_json::{Map, Value};

use crate::one_line::one_line;
use crate::print::{human_bytes, human_seconds};

/// A node with nested objects flattened to `object_field`.
pub(super) type NodeFields = Map<String, Value>;

const BYTES: &str = "_bytes";
const SECONDS: &str = "_seconds";
const PROGRESS: &str = "_progress";
pub(super) const RATE: &str = "_bytes_per_second";

/// Formats a value in the unit of its key.
pub(super) fn cell(key: &str, value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(size), _) if key.ends_with(BYTES) => human_bytes(size),
        (Some(size), _) if key.ends_with(RATE) => format!("{}/s", human_bytes(size)),
        (_, Some(seconds)) if key.ends_with(SECONDS) => human_seconds(seconds),
        (_, Some(done)) if key.ends_with(PROGRESS) => percent(done),
        _ => plain_text(value),
    }
}

/// A key in words, without its unit.
pub(super) fn title(key: &str) -> String {
    let unit = [BYTES, RATE, SECONDS].into_iter().find_map(|unit| key.strip_suffix(unit));
    unit.unwrap_or(key).replace('_', " ")
}

/// A fraction as a percentage.
pub(super) fn percent(done: f64) -> String {
    format!("{:.0}%", done * 100.0)
}

pub(super) fn text<'a>(node: &'a NodeFields, key: &str) -> Option<&'a str> {
    node.get(key).and_then(Value::as_str)
}

/// A field as plain text; empty if it is missing.
pub(super) fn shown(node: &NodeFields, key: &str) -> String {
    node.get(key).map(plain_text).unwrap_or_default()
}

pub(super) fn number(node: &NodeFields, key: &str) -> u64 {
    node.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// The length of a list; 0 if it is missing.
pub(super) fn length(node: &NodeFields, key: &str) -> usize {
    node.get(key).and_then(Value::as_array).map_or(0, Vec::len)
}

pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => one_line(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(list) => list.iter().map(plain_text).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, value)| format!("{name}={}", plain_text(value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
    }
}
