//! One message becomes one event.

use bucksaw_record::Labels;

use super::GelfError;
use crate::json_members::{JsonText, push_severity, push_value, read_object, stated_time, text, utf8};
use crate::stream_labels::{HOST_NAME, SERVICE_NAME, StreamLabels};
use crate::{AttributeList, Event, EventSink, inflate};

/// Decodes the messages of one listener, connection or request. Keeps the labels of earlier messages, at most 1 MiB of them.
#[derive(Debug)]
pub struct GelfDecoder {
    labels: StreamLabels,
    attributes: AttributeList,
    /// The decompressed message.
    inflated: Vec<u8>,
    message_bytes_max: usize,
}

/// The members of a message that are no attributes, as JSON.
#[derive(Default)]
struct GelfMembers<'a> {
    host: &'a str,
    short_message: &'a str,
    full_message: &'a str,
    timestamp: &'a str,
    level: &'a str,
    /// The name of the program, and the position in [`APP_FIELDS`] of the field that states it.
    app: Option<(usize, &'a str)>,
}

/// Fields that name the program. The first one that is stated becomes the label `service.name` too.
const APP_FIELDS: [&str; 4] = ["_app", "_application", "_service", "_container_name"];

/// Fields with a name of the semantic conventions of OpenTelemetry, and that name.
const RENAMED_FIELDS: [(&str, &str); 6] = [
    ("file", "code.file.path"),
    ("line", "code.line.number"),
    ("_container_id", "container.id"),
    ("_container_name", "container.name"),
    ("_image_id", "container.image.id"),
    ("_image_name", "container.image.name"),
];

impl GelfDecoder {
    /// The maximum length of a message, decompressed, unless a lower one is set: 16 MiB. Compressed, 128 chunks of UDP have at
    /// most 8 MiB.
    pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

    /// A decoder whose events all get `labels` too, which prevail over what messages state. Refuses messages that are longer
    /// than `message_bytes_max` when they are decompressed, or than [`Self::MESSAGE_BYTES_MAX`].
    pub fn new(labels: &Labels, message_bytes_max: usize) -> Self {
        let message_bytes_max = message_bytes_max.min(Self::MESSAGE_BYTES_MAX);
        let (labels, attributes, inflated) = (StreamLabels::new(labels), AttributeList::default(), Vec::new());
        Self { labels, attributes, inflated, message_bytes_max }
    }

    /// Frees what no message needs: for connections that are idle.
    pub fn release_memory(&mut self) {
        self.inflated = Vec::new();
        self.attributes = AttributeList::default();
        self.labels.forget();
    }

    /// Decodes one message: JSON, or JSON compressed with gzip or zlib.
    ///
    /// # Errors
    /// [`GelfError`]. Nothing was passed to the sink.
    pub fn message(&mut self, message: &[u8], sink: &mut dyn EventSink) -> Result<(), GelfError> {
        let bytes_max = self.message_bytes_max;
        let inflate = match message {
            [0x1f, 0x8b, ..] => inflate::gzip,
            _ if is_zlib(message) => inflate::zlib,
            _ if message.len() > bytes_max => return Err(GelfError::TooLong(bytes_max)),
            _ => return self.only_message(message, sink),
        };
        let mut inflated = std::mem::take(&mut self.inflated);
        let result = inflate(message, bytes_max, &mut inflated).map_err(GelfError::from);
        let result = result.and_then(|()| self.only_message(&inflated, sink));
        // The memory of one long message is not kept for all that follow.
        if inflated.capacity() <= 1 << 20 {
            self.inflated = inflated;
        }
        result
    }

    /// Decodes the decompressed body of an HTTP request: one message, or several one after the other, with or without LFs between.
    /// Returns the number of messages.
    ///
    /// # Errors
    /// The first [`GelfError`]. The messages before it were passed to the sink.
    pub fn body(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<u64, GelfError> {
        let mut json = serde_json::Deserializer::from_str(utf8(body)?);
        let mut count = 0;
        loop {
            self.next_message(&mut json, sink)?;
            count += 1;
            if json.end().is_ok() {
                return Ok(count);
            }
        }
    }

    fn only_message(&mut self, message: &[u8], sink: &mut dyn EventSink) -> Result<(), GelfError> {
        let mut json = serde_json::Deserializer::from_str(utf8(message)?);
        self.next_message(&mut json, sink)?;
        Ok(json.end()?)
    }

    fn next_message(&mut self, json: &mut JsonText<'_>, sink: &mut dyn EventSink) -> Result<(), GelfError> {
        let Self { labels, attributes, .. } = self;
        attributes.clear();
        labels.clear();
        let mut members = GelfMembers::default();
        read_object(json, |name, value| match name {
            "host" => members.host = value,
            "short_message" => members.short_message = value,
            "full_message" => members.full_message = value,
            "timestamp" => members.timestamp = value,
            "level" => members.level = value,
            "version" => {}
            _ => push_field(name, value, &mut members, attributes),
        })?;
        labels.push(HOST_NAME, &text(members.host), attributes);
        labels.push(SERVICE_NAME, &text(members.app.map_or("", |(_, app)| app)), attributes);
        push_severity(attributes, members.level);
        let (short, full) = (text(members.short_message), text(members.full_message));
        let line = match (&*short, &*full) {
            ("", "") => return Err(GelfError::NoMessage),
            (short, "") => short,
            (short, full) if full.starts_with(short) => full,
            (short, full) => {
                attributes.push("full_message", full.as_bytes());
                short
            }
        };
        let line = line.trim_end_matches(['\n', '\r']);
        let event = Event { time: stated_time(members.timestamp), line: line.as_bytes(), attributes };
        Ok(sink.push(&labels.get(), &event)?)
    }
}

/// A zlib header is deflate with a window of at most 32 KiB, and a multiple of 31.
fn is_zlib(message: &[u8]) -> bool {
    matches!(message, [method, flags, ..] if method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}

/// Adds a field as an attribute. The name of the program is a label too.
fn push_field<'a>(name: &str, json: &'a str, members: &mut GelfMembers<'a>, attributes: &mut AttributeList) {
    let renamed = RENAMED_FIELDS.iter().find(|(field, _)| *field == name).map(|(_, attribute)| *attribute);
    let attribute = renamed.unwrap_or_else(|| name.strip_prefix('_').unwrap_or(name));
    let rank = APP_FIELDS.iter().position(|field| *field == name).filter(|_| json.starts_with('"'));
    if let Some(rank) = rank
        && members.app.is_none_or(|(other, _)| rank < other)
    {
        members.app = Some((rank, json));
    }
    push_value(attributes, attribute, json);
}
