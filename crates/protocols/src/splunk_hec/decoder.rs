//! Bodies become events.

use bucksaw_record::time::event_time_number;
use bucksaw_record::{Labels, Millis};

use super::{HecCode, HecMetadata};
use crate::json_members::{JsonText, push_label, push_value, read_object, read_only_object, text, utf8};
use crate::stream_labels::{HOST_NAME, StreamLabels};
use crate::{AttributeList, Event, EventError, EventSink};

/// Why a body is refused from one event on.
#[derive(Debug, thiserror::Error)]
#[error("{}", code.text())]
pub struct HecError {
    /// The code for the answer.
    pub code: HecCode,
    /// The number of the event, from 0. `None` if the error is of the whole body.
    pub event: Option<u64>,
}

/// A body without an event.
const NO_DATA: HecError = HecError { code: HecCode::NoData, event: None };

/// Decodes the bodies of requests with equal metadata. Keeps the labels of earlier events, at most 1 MiB of them.
#[derive(Debug)]
pub struct HecDecoder {
    defaults: HecMetadata,
    labels: StreamLabels,
    attributes: AttributeList,
}

/// The members of an event that are no attributes, as JSON. Empty if they are not stated.
#[derive(Default)]
struct HecMembers<'a> {
    event: &'a str,
    fields: &'a str,
    time: &'a str,
    host: &'a str,
    source: &'a str,
    sourcetype: &'a str,
    index: &'a str,
}

impl HecDecoder {
    /// Creates a decoder. Each event has `labels`, which prevail over those that it states. `defaults` are the values that
    /// an event does not state.
    pub fn new(labels: &Labels, defaults: HecMetadata) -> Self {
        Self { defaults, labels: StreamLabels::new(labels), attributes: AttributeList::default() }
    }

    /// Decodes a decompressed body of JSON objects, one after the other, with or without space between. Returns the number of
    /// events.
    ///
    /// # Errors
    /// The first [`HecError`]. The events before it were passed to the sink, as Splunk does too.
    pub fn events(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<u64, HecError> {
        let body = utf8(body).map_err(|_| HecError { code: HecCode::InvalidDataFormat, event: Some(0) })?;
        if body.trim().is_empty() {
            return Err(NO_DATA);
        }
        let mut json = serde_json::Deserializer::from_str(body);
        let mut count = 0;
        loop {
            self.next_event(&mut json, sink).map_err(|code| HecError { code, event: Some(count) })?;
            count += 1;
            if json.end().is_ok() {
                return Ok(count);
            }
        }
    }

    /// Decodes a decompressed body of text: each line that is not empty is an event. Returns the number of events.
    ///
    /// # Errors
    /// [`HecError`] if there is no event, or the sink refuses one.
    pub fn raw(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<u64, HecError> {
        let lines = body.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let mut count = 0;
        for line in lines.filter(|line| !line.is_empty()) {
            let pushed = self.push(&HecMembers::default(), line, sink);
            pushed.map_err(|code| HecError { code, event: Some(count) })?;
            count += 1;
        }
        if count == 0 { Err(NO_DATA) } else { Ok(count) }
    }

    fn next_event(&mut self, json: &mut JsonText<'_>, sink: &mut dyn EventSink) -> Result<(), HecCode> {
        let mut members = HecMembers::default();
        self.attributes.clear();
        let read = read_object(json, |name, value| match name {
            "event" => members.event = value,
            "fields" => members.fields = value,
            "time" => members.time = value,
            "host" => members.host = value,
            "source" => members.source = value,
            "sourcetype" => members.sourcetype = value,
            "index" => members.index = value,
            _ => push_value(&mut self.attributes, name, value),
        });
        read.map_err(|_| HecCode::InvalidDataFormat)?;
        let line = text(members.event);
        if line.is_empty() {
            let is_missing = matches!(members.event, "" | "null");
            return Err(if is_missing { HecCode::EventRequired } else { HecCode::EventBlank });
        }
        push_fields(members.fields, &mut self.attributes)?;
        self.push(&members, line.trim_end_matches(['\n', '\r']).as_bytes(), sink)
    }

    /// Passes on an event. Its attributes are there.
    fn push(&mut self, members: &HecMembers<'_>, line: &[u8], sink: &mut dyn EventSink) -> Result<(), HecCode> {
        let Self { defaults, labels, attributes } = self;
        let time = time(members.time)?.or(defaults.time);
        labels.clear();
        push_label(labels, HOST_NAME, members.host, &defaults.host, attributes);
        push_label(labels, "source", members.source, &defaults.source, attributes);
        push_label(labels, "sourcetype", members.sourcetype, &defaults.sourcetype, attributes);
        push_label(labels, "index", members.index, &defaults.index, attributes);
        let pushed = sink.push(&labels.get(), &Event { time, line, attributes });
        pushed.map_err(|error| match error {
            EventError::Attributes(_) => HecCode::IndexedFields,
            _ => HecCode::InvalidDataFormat,
        })
    }
}

/// Adds the members of `fields` as attributes. Only objects of plain values, and of arrays, are allowed.
fn push_fields(json: &str, attributes: &mut AttributeList) -> Result<(), HecCode> {
    if matches!(json, "" | "null") {
        return Ok(());
    }
    let mut is_flat = true;
    let read = read_only_object(json.as_bytes(), |name, value| {
        is_flat &= !value.starts_with('{');
        push_value(attributes, name, value);
    });
    if read.is_ok() && is_flat { Ok(()) } else { Err(HecCode::IndexedFields) }
}

/// A number of seconds since 1970, also in a string.
fn time(json: &str) -> Result<Option<(Millis, u32)>, HecCode> {
    let number = text(json);
    let number = number.trim();
    if number.is_empty() {
        return Ok(None);
    }
    event_time_number(number).map(Some).ok_or(HecCode::InvalidDataFormat)
}
