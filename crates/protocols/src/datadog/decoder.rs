//! Each object of a body becomes one event.

use bucksaw_record::Labels;

use super::{DatadogDefaults, DatadogError};
use crate::json_members::{
    push_flattened, push_label, push_severity, read_items, read_only_object, stated_time, text, utf8,
};
use crate::stream_labels::{HOST_NAME, SERVICE_NAME, StreamLabels};
use crate::{AttributeList, Event, EventError, EventSink};

/// Decodes the bodies of requests with equal defaults. Keeps the labels of earlier logs, at most 1 MiB of them.
#[derive(Debug)]
pub struct DatadogDecoder {
    defaults: DatadogDefaults,
    labels: StreamLabels,
    attributes: AttributeList,
}

/// The members of a log that are no attributes, as JSON. Empty if they are not stated.
#[derive(Default)]
struct DatadogMembers<'a> {
    message: &'a str,
    status: &'a str,
    timestamp: &'a str,
    hostname: &'a str,
    service: &'a str,
    source: &'a str,
    tags: &'a str,
}

/// Why a log is no event.
enum LogError {
    Json(serde_json::Error),
    Event(EventError),
}

impl DatadogDecoder {
    /// A decoder whose events all get `labels` too, which prevail over what logs state. `defaults` are for logs that do not
    /// state a value themselves.
    pub fn new(labels: &Labels, defaults: DatadogDefaults) -> Self {
        Self { defaults, labels: StreamLabels::new(labels), attributes: AttributeList::default() }
    }

    /// Decodes a decompressed body: an array of objects, or one object. Returns the number of logs.
    ///
    /// # Errors
    /// The first [`DatadogError`]. The logs before it were passed to the sink.
    pub fn logs(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<u64, DatadogError> {
        let body = utf8(body)?;
        if !body.trim_start().starts_with('[') {
            self.log(body.trim(), sink).map_err(|error| error.of_log(0))?;
            return Ok(1);
        }
        let mut count = 0;
        read_items(body, |log| {
            self.log(log, sink).map_err(|error| error.of_log(count))?;
            count += 1;
            Ok::<(), DatadogError>(())
        })?;
        Ok(count)
    }

    fn log(&mut self, log: &str, sink: &mut dyn EventSink) -> Result<(), LogError> {
        let Self { defaults, labels, attributes } = self;
        attributes.clear();
        labels.clear();
        let mut members = DatadogMembers::default();
        let read = read_only_object(log.as_bytes(), |name, value| match name {
            "message" => members.message = value,
            "status" => members.status = value,
            "timestamp" | "@timestamp" | "date" if members.timestamp.is_empty() => members.timestamp = value,
            "hostname" => members.hostname = value,
            "host" if value.starts_with('"') => members.hostname = value,
            "service" => members.service = value,
            "ddsource" => members.source = value,
            "ddtags" => members.tags = value,
            _ => push_flattened(attributes, name, value),
        });
        read.map_err(LogError::Json)?;
        push_label(labels, HOST_NAME, members.hostname, &defaults.hostname, attributes);
        push_label(labels, SERVICE_NAME, members.service, &defaults.service, attributes);
        push_label(labels, "source", members.source, &defaults.source, attributes);
        push_tags(&text(members.tags), labels, attributes);
        let message = text(members.message);
        if message.is_empty() {
            // The object is the line, so its members are no attributes.
            attributes.clear();
        }
        push_tags(&defaults.tags, labels, attributes);
        push_severity(attributes, members.status);
        let line = if message.is_empty() { log } else { message.trim_end_matches(['\n', '\r']) };
        let event = Event { time: stated_time(members.timestamp), line: line.as_bytes(), attributes };
        sink.push(&labels.get(), &event).map_err(LogError::Event)
    }
}

impl LogError {
    fn of_log(self, number: u64) -> DatadogError {
        match self {
            Self::Json(error) => DatadogError::Json(error),
            Self::Event(error) => DatadogError::Event { number, error },
        }
    }
}

/// Adds tags such as `env:prod,team:shop,canary`: the label `env`, and attributes for all others. A tag without a value is
/// an attribute with an empty value.
fn push_tags(tags: &str, labels: &mut StreamLabels, attributes: &mut AttributeList) {
    for tag in tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
        match tag.split_once(':').unwrap_or((tag, "")) {
            ("env", value) => labels.push("env", value, attributes),
            (name, value) => attributes.push(name, value.as_bytes()),
        }
    }
}
