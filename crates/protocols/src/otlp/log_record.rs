//! One log record, whatever it was encoded with, and the events made of it.

use std::io::Write as _;

use bucksaw_record::{Labels, Millis, time};

use super::severity::severity_name;
use crate::event::without_line_end;
use crate::stream_labels::{HOST_NAME, SERVICE_NAME, StreamLabels};
use crate::{AttributeList, Decoded, Event, EventSink};

/// Resource attributes that become labels. They name the program and where it is deployed; what names a single process, pod
/// or container is an attribute, because each value of a label makes a stream of its own.
const LABELS: [&str; 7] = [
    SERVICE_NAME,
    "service.namespace",
    HOST_NAME,
    "k8s.cluster.name",
    "k8s.namespace.name",
    "deployment.environment.name",
    "deployment.environment",
];

/// The members of a log record besides its attributes and its body.
#[derive(Debug, Default)]
pub(super) struct LogFields<'a> {
    /// Nanoseconds since 1970; 0 if not stated.
    pub(super) time: u64,
    pub(super) observed_time: u64,
    pub(super) severity_number: i64,
    pub(super) severity_text: &'a [u8],
    pub(super) trace_id: &'a [u8],
    pub(super) span_id: &'a [u8],
    pub(super) flags: u32,
    pub(super) event_name: &'a [u8],
    pub(super) dropped_attributes: u64,
    /// Whether the record has a body.
    pub(super) has_body: bool,
    /// The text of the body, if it is a string that is read in place. It is in [`OtlpRecordWriter::line`] otherwise.
    pub(super) body_text: Option<&'a [u8]>,
}

/// Writes events: first the resource, then a scope of it, then the records of the scope.
#[derive(Debug, Default)]
pub(super) struct OtlpRecordWriter {
    pub(super) attributes: AttributeList,
    /// The text of the body.
    pub(super) line: Vec<u8>,
    /// The value that is decoded.
    pub(super) value: Vec<u8>,
    stream: StreamLabels,
    labels: Labels,
    /// Attributes of the resource.
    resource_count: usize,
    /// Attributes of the resource and the scope.
    scope_count: usize,
}

impl OtlpRecordWriter {
    pub(super) fn new(labels: &Labels) -> Self {
        Self { stream: StreamLabels::new(labels), labels: labels.clone(), ..Self::default() }
    }

    pub(super) fn begin_resource(&mut self) {
        self.attributes.clear();
        self.stream.clear();
    }

    /// Adds an attribute of the resource, whose value is [`Self::value`].
    pub(super) fn resource_attribute(&mut self, name: &str) {
        if LABELS.contains(&name)
            && let Ok(value) = str::from_utf8(&self.value)
        {
            self.stream.push(name, value, &mut self.attributes);
        } else {
            self.attributes.push(name, &self.value);
        }
    }

    pub(super) fn end_resource(&mut self) {
        self.labels = self.stream.get();
        self.resource_count = self.attributes.len();
    }

    pub(super) fn begin_scope(&mut self) {
        self.attributes.truncate(self.resource_count);
    }

    /// Adds an attribute of the scope or of the record, whose value is [`Self::value`].
    pub(super) fn attribute(&mut self, name: &str) {
        self.attributes.push(name, &self.value);
    }

    pub(super) fn scope_field(&mut self, name: &str, value: &[u8]) {
        if !value.is_empty() {
            self.attributes.push(name, value);
        }
    }

    pub(super) fn end_scope(&mut self) {
        self.scope_count = self.attributes.len();
    }

    pub(super) fn begin_record(&mut self) {
        self.attributes.truncate(self.scope_count);
        self.line.clear();
    }

    pub(super) fn end_record(&mut self, fields: &LogFields<'_>, decoded: &mut Decoded, sink: &mut dyn EventSink) {
        let time = stated_time(fields.time);
        let observed = stated_time(fields.observed_time);
        let list = &mut self.attributes;
        let mut text = |name: &str, value: &[u8]| {
            if !value.is_empty() {
                list.push(name, value);
            }
        };
        match severity_name(fields.severity_number) {
            Some(name) if fields.severity_text.is_empty() => text("severity_text", name.as_bytes()),
            _ => text("severity_text", fields.severity_text),
        }
        text("event_name", fields.event_name);
        push_number(list, "severity_number", fields.severity_number);
        push_number(list, "otel.dropped_attributes_count", fields.dropped_attributes.try_into().unwrap_or(i64::MAX));
        push_hex(list, "trace_id", fields.trace_id);
        push_hex(list, "span_id", fields.span_id);
        // Only the low byte has a meaning, and it is written as in the header `traceparent`.
        if fields.flags & 0xff != 0 {
            push_hex(list, "trace_flags", &[fields.flags as u8]);
        }
        if let Some((at, below)) = observed
            && time.is_some()
            && time != observed
        {
            list.push_parts(&["observed_timestamp"], |out| time::write_rfc3339(out, at, below));
        }
        // An event without a body is described by its name and its attributes.
        let body = fields.body_text.unwrap_or(&self.line);
        let line = if fields.has_body { body } else { fields.event_name };
        let event = Event { time: time.or(observed), line: without_line_end(line), attributes: &self.attributes };
        decoded.push(sink, &self.labels, &event);
    }
}

/// The time of nanoseconds since 1970, of which 0 means that none is stated.
fn stated_time(nanos: u64) -> Option<(Millis, u32)> {
    (nanos > 0).then_some((Millis(nanos / 1_000_000), (nanos % 1_000_000) as u32))
}

/// Adds a number that is not zero, which is the default.
fn push_number(list: &mut AttributeList, name: &str, number: i64) {
    if number != 0 {
        // A `Vec` takes everything.
        list.push_parts(&[name], |out| drop(write!(out, "{number}")));
    }
}

/// Adds an id in hexadecimal digits. An id of zeros means that there is none.
fn push_hex(list: &mut AttributeList, name: &str, id: &[u8]) {
    if id.iter().all(|byte| *byte == 0) {
        return;
    }
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value & 0xf)).copied().unwrap_or_default();
    list.push_parts(&[name], |out| out.extend(id.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)])));
}
