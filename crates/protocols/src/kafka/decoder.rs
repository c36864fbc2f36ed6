//! One message as one event.

use std::borrow::Cow;
use std::io::Write as _;

use bucksaw_record::time::event_time_number;
use bucksaw_record::{Labels, Millis};

use super::mapping::{KafkaFormat, KafkaMapping};
use super::undecoded::Undecoded;
use crate::event::without_line_end;
use crate::json::JsonObject;
use crate::json_members::utf8;
use crate::stream_labels::StreamLabels;
use crate::{AttributeList, Event, EventSink};

/// The label with the topic.
const TOPIC: &str = "topic";

/// Names of OpenTelemetry's semantic conventions for Kafka.
const KEY: &str = "messaging.kafka.message.key";
const TOMBSTONE: &str = "messaging.kafka.message.tombstone";
const PARTITION: &str = "messaging.destination.partition.id";
const OFFSET: &str = "messaging.kafka.offset";

/// Why a message was stored as it is. The conventions have no such name.
const UNDECODED: &str = "messaging.kafka.undecoded";

/// Key and headers of a message whose attributes are beyond the limits, as one text.
const HEADERS: &str = "messaging.kafka.headers";

/// Bytes of that text; the rest is cut off.
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// Timestamps that are milliseconds: from 1973 to 5138. Others are in another unit, see [`event_time_number`].
const PLAIN_MILLIS: std::ops::Range<u64> = 100_000_000_000..100_000_000_000_000;

/// A message of a topic.
#[derive(Clone, Copy, Debug)]
pub struct KafkaMessage<'a> {
    /// The partition.
    pub partition: i32,
    /// The offset in it.
    pub offset: i64,
    /// The number that the producer or the broker states as the time; in milliseconds, if they follow Kafka's documentation.
    pub timestamp: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// Names and values of the headers, in order; a name may be repeated.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// Whether there are more headers, with names that cannot be read.
    pub has_unreadable_headers: bool,
}

/// Decodes the messages of one topic one after the other. Its buffers and the labels of known streams are kept between them.
#[derive(Debug)]
pub struct KafkaDecoder {
    mapping: KafkaMapping,
    base: Labels,
    stream: StreamLabels,
    attributes: AttributeList,
}

impl KafkaDecoder {
    /// Creates a decoder; each event has the topic as its label `topic`.
    pub fn new(mapping: KafkaMapping, topic: &str) -> Self {
        // The names of topics have at most 249 letters, digits, `.`, `_` and `-`, so this is a label.
        let base = Labels::new([(TOPIC, topic)]).unwrap_or_default();
        Self { mapping, stream: StreamLabels::new(&base), base, attributes: AttributeList::default() }
    }

    /// Gives exactly one event to the sink, and returns why it is not as the mapping says, if so.
    ///
    /// The sink must accept events without attributes.
    pub fn message(&mut self, message: &KafkaMessage<'_>, sink: &mut dyn EventSink) -> Option<Undecoded> {
        self.attributes.clear();
        self.stream.clear();
        let time = stated_time(message.timestamp);
        self.push_headers(message);
        let beside_value = (self.attributes.len(), self.stream.mark());
        let mut undecoded = message.has_unreadable_headers.then_some(Undecoded::HeaderName);
        let mut event_time = time;
        let line = match (message.value, &self.mapping.format) {
            (None, _) => {
                self.attributes.push(TOMBSTONE, b"true");
                undecoded = undecoded.or(Some(Undecoded::Tombstone));
                Cow::Borrowed(&[][..])
            }
            (Some(value), KafkaFormat::Plain) => Cow::Borrowed(without_line_end(value)),
            (Some(value), KafkaFormat::Json(names)) => {
                let Self { stream, attributes, .. } = self;
                let object =
                    utf8(value).and_then(|json| JsonObject::read(names, json.trim_ascii(), stream, attributes));
                match object {
                    Ok(object) => {
                        event_time = within_an_hour(object.time, time);
                        match object.line {
                            Cow::Borrowed(line) => Cow::Borrowed(line.as_bytes()),
                            Cow::Owned(line) => Cow::Owned(line.into_bytes()),
                        }
                    }
                    Err(_) => {
                        self.attributes.truncate(beside_value.0);
                        self.stream.reset(beside_value.1);
                        undecoded = undecoded.or(Some(Undecoded::InvalidJson));
                        Cow::Borrowed(without_line_end(value))
                    }
                }
            }
        };
        if let Some(reason) = undecoded.filter(|reason| *reason != Undecoded::Tombstone) {
            self.attributes.push(UNDECODED, reason.name().as_bytes());
        }
        let labels = self.stream.get();
        if sink.push(&labels, &Event { time: event_time, line: &line, attributes: &self.attributes }).is_ok() {
            return undecoded;
        }
        self.push_as_it_is(message, event_time, sink);
        Some(Undecoded::TooManyAttributes)
    }

    /// Key, headers and position as labels and attributes.
    fn push_headers(&mut self, message: &KafkaMessage<'_>) {
        let Self { mapping, stream, attributes, .. } = self;
        if let Some(key) = message.key {
            match (&mapping.key_label, str::from_utf8(key)) {
                (Some(label), Ok(text)) => stream.push(label, text, attributes),
                _ => attributes.push(KEY, key),
            }
        }
        for (name, value) in message.headers {
            let value = value.unwrap_or_default();
            match str::from_utf8(value) {
                Ok(text) if mapping.label_headers.iter().any(|label| label == name) => {
                    stream.push(name, text, attributes);
                }
                _ => attributes.push(name, value),
            }
        }
        if mapping.with_position {
            attributes.push_parts(&[PARTITION], |out| drop(write!(out, "{}", message.partition)));
            attributes.push_parts(&[OFFSET], |out| drop(write!(out, "{}", message.offset)));
        }
    }

    /// The value as the line, with few attributes, or with none if that is still too much.
    fn push_as_it_is(&mut self, message: &KafkaMessage<'_>, time: Option<(Millis, u32)>, sink: &mut dyn EventSink) {
        self.attributes.clear();
        self.attributes.push(UNDECODED, Undecoded::TooManyAttributes.name().as_bytes());
        self.attributes.push_parts(&[HEADERS], |out| headers_text(message, out));
        let line = without_line_end(message.value.unwrap_or_default());
        if sink.push(&self.base, &Event { time, line, attributes: &self.attributes }).is_err() {
            self.attributes.clear();
            // A sink accepts every line without attributes.
            let _ = sink.push(&self.base, &Event { time, line, attributes: &self.attributes });
        }
    }
}

/// Appends key and headers as `"name"="value"` with spaces between, up to [`HEADERS_BYTES_MAX`].
fn headers_text(message: &KafkaMessage<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let key = message.key.map(|key| (KEY, Some(key)));
    for (name, value) in key.into_iter().chain(message.headers.iter().copied()) {
        let room = HEADERS_BYTES_MAX.saturating_sub(out.len() - start);
        if room == 0 {
            break;
        }
        let separator = if out.len() == start { "" } else { " " };
        let (name, value) = (name.as_bytes(), value.unwrap_or_default());
        let (name, value) = (name.get(..room).unwrap_or(name), value.get(..room).unwrap_or(value));
        let _ = write!(out, "{separator}\"{}\"=\"{}\"", name.escape_ascii(), value.escape_ascii());
    }
    out.truncate(start + HEADERS_BYTES_MAX);
}

/// The time of a timestamp. The magnitude decides the unit, as of numbers in JSON, because producers mistake it. None if it is
/// negative, which means that there is none.
fn stated_time(timestamp: Option<i64>) -> Option<(Millis, u32)> {
    let number = u64::try_from(timestamp?).ok()?;
    if PLAIN_MILLIS.contains(&number) { Some((Millis(number), 0)) } else { event_time_number(&number.to_string()) }
}

/// The time in a value, unless it is more than an hour ahead of the timestamp of its message. The clock of the node would
/// decide otherwise when the message is read again.
fn within_an_hour(stated: Option<(Millis, u32)>, timestamp: Option<(Millis, u32)>) -> Option<(Millis, u32)> {
    match (stated, timestamp) {
        (Some((at, _)), Some(sent)) if at.clamp_future(sent.0).1 => Some(sent),
        (Some(stated), _) => Some(stated),
        (None, timestamp) => timestamp,
    }
}
