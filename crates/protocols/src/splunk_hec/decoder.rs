//! Bodies become events.

use std::borrow::Cow;

use bucksaw_record::time::event_time_number;
use bucksaw_record::{Labels, Millis};

use super::{HecCode, HecMetadata};
use crate::json_members::{JsonText, push_value, read_object, read_only_object, text, utf8};
use crate::stream_labels::StreamLabels;
use crate::{AttributeList, Event, EventError, EventSink};

/// Why a body is refused from one event on.
#[derive(Debug, thiserror::Error)]
#[error("{text}: {reason}", text = code.text())]
pub struct HecError {
    /// The code for the answer.
    pub code: HecCode,
    /// The number of the event, from 0. `None` if the error is of the whole body.
    pub event: Option<u64>,
    /// What is wrong; the answer cannot say it.
    pub reason: String,
}

/// What is wrong with one event.
type HecRefusal = (HecCode, String);

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
    /// A decoder whose events all get `labels` too, which prevail over what events state. `defaults` are for events that do
    /// not state a value themselves.
    pub fn new(labels: &Labels, defaults: HecMetadata) -> Self {
        Self { defaults, labels: StreamLabels::new(labels), attributes: AttributeList::default() }
    }

    /// Decodes a decompressed body of JSON objects, one after the other, with or without space between. Returns the number of
    /// events.
    ///
    /// # Errors
    /// The first [`HecError`]. The events before it were passed to the sink, as Splunk does too.
    pub fn events(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<u64, HecError> {
        let invalid = |error: serde_json::Error| HecError {
            code: HecCode::InvalidDataFormat,
            event: Some(0),
            reason: error.to_string(),
        };
        let body = utf8(body).map_err(invalid)?;
        if body.trim().is_empty() {
            return Err(no_data());
        }
        let mut json = serde_json::Deserializer::from_str(body);
        let mut count = 0;
        loop {
            let taken = self.next_event(&mut json, sink);
            taken.map_err(|(code, reason)| HecError { code, event: Some(count), reason })?;
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
            let taken = self.push(&HecMembers::default(), line, sink);
            taken.map_err(|(code, reason)| HecError { code, event: Some(count), reason })?;
            count += 1;
        }
        if count == 0 { Err(no_data()) } else { Ok(count) }
    }

    fn next_event(&mut self, json: &mut JsonText<'_>, sink: &mut dyn EventSink) -> Result<(), HecRefusal> {
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
        read.map_err(|error| (HecCode::InvalidDataFormat, error.to_string()))?;
        let line = match text(members.event) {
            line if line.is_empty() => {
                let code =
                    if matches!(members.event, "" | "null") { HecCode::EventRequired } else { HecCode::EventBlank };
                return Err((code, "an object needs a member `event` that is not empty".to_owned()));
            }
            line => line,
        };
        push_fields(members.fields, &mut self.attributes)?;
        self.push(&members, line.trim_end_matches(['\n', '\r']).as_bytes(), sink)
    }

    /// Passes on an event. Its attributes are there.
    fn push(&mut self, members: &HecMembers<'_>, line: &[u8], sink: &mut dyn EventSink) -> Result<(), HecRefusal> {
        let Self { defaults, labels, attributes } = self;
        let time = time(members.time)?.or(defaults.time);
        labels.clear();
        let stated = [
            ("host", members.host, &defaults.host),
            ("source", members.source, &defaults.source),
            ("sourcetype", members.sourcetype, &defaults.sourcetype),
            ("index", members.index, &defaults.index),
        ];
        for (name, value, default) in stated {
            let value = text(value);
            let value = if value.is_empty() { Cow::Borrowed(default.as_str()) } else { value };
            labels.push(name, &value, attributes);
        }
        let taken = sink.push(&labels.get(), &Event { time, line, attributes });
        taken.map_err(|error| {
            let code = match error {
                EventError::Attributes(_) => HecCode::IndexedFields,
                _ => HecCode::InvalidDataFormat,
            };
            (code, error.to_string())
        })
    }
}

fn no_data() -> HecError {
    HecError { code: HecCode::NoData, event: None, reason: "the body has no event".to_owned() }
}

/// Adds the members of `fields` as attributes. Only objects of plain values, and of arrays, are allowed.
fn push_fields(json: &str, attributes: &mut AttributeList) -> Result<(), HecRefusal> {
    if matches!(json, "" | "null") {
        return Ok(());
    }
    let mut nested = None;
    let read = read_only_object(json.as_bytes(), |name, value| {
        if value.starts_with('{') {
            nested = Some(name.chars().take(40).collect::<String>());
        }
        push_value(attributes, name, value);
    });
    let reason = match (read, nested) {
        (Ok(()), None) => return Ok(()),
        (Err(error), _) => format!("`fields`: {error}"),
        (_, Some(name)) => format!("`fields.{name}` is an object: send its members as fields"),
    };
    Err((HecCode::IndexedFields, reason))
}

/// A number of seconds since 1970, also in a string.
fn time(json: &str) -> Result<Option<(Millis, u32)>, HecRefusal> {
    let number = text(json);
    let number = number.trim();
    if number.is_empty() {
        return Ok(None);
    }
    let invalid = || {
        let number: String = number.chars().take(40).collect();
        (HecCode::InvalidDataFormat, format!("`time` is not a number of seconds since 1970: {number}"))
    };
    event_time_number(number).map(Some).ok_or_else(invalid)
}
