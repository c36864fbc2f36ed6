//! How a message becomes an event.

use crate::json::JsonNames;

/// What the values of messages are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaFormat {
    /// The value is the line.
    Plain,
    /// The value is one JSON object with members of these names.
    Json(JsonNames),
}

/// How messages become events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaMapping {
    /// What the values are.
    pub format: KafkaFormat,
    /// The label that has the key. `None`: the key is an attribute.
    pub key_label: Option<String>,
    /// Names of headers that are labels. All others are attributes.
    pub label_headers: Vec<String>,
    /// Whether partition and offset are attributes.
    pub with_position: bool,
}

impl KafkaMapping {
    /// Plain values; key and headers are attributes.
    pub fn plain() -> Self {
        Self { format: KafkaFormat::Plain, key_label: None, label_headers: Vec::new(), with_position: false }
    }
}
