//! Bodies as events.

use std::borrow::Cow;

use bucksaw_record::{Labels, Millis};

use super::JsonNames;
use super::objects::JsonObjects;
use crate::json_members::{push_flattened, read_only_object, stated_time, string, text, utf8};
use crate::stream_labels::StreamLabels;
use crate::{AttributeList, Decoded, Event, EventSink};

/// Removed behind a message.
const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// Why a body cannot be read to its end. The events before the error were given to the sink.
#[derive(Debug, thiserror::Error)]
#[error("invalid JSON in object {number}, from byte {at} of the body: {source}")]
pub struct JsonBodyError {
    /// The number of the object, from 1.
    pub number: u64,
    /// The offset at which the object begins.
    pub at: usize,
    /// What was wrong.
    pub source: serde_json::Error,
}

/// Decodes bodies one after the other. Its buffers and the labels of known streams are kept between bodies.
#[derive(Debug)]
pub struct JsonDecoder {
    names: JsonNames,
    stream: StreamLabels,
    attributes: AttributeList,
}

impl JsonDecoder {
    /// Creates a decoder; each event has `labels`, the labels of the listener and of the request.
    pub fn new(names: JsonNames, labels: &Labels) -> Self {
        Self { names, stream: StreamLabels::new(labels), attributes: AttributeList::default() }
    }

    /// Decodes a body. A value that is no object is counted as rejected.
    ///
    /// # Errors
    /// [`JsonBodyError`] at the first value that is not valid JSON.
    pub fn body(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<Decoded, JsonBodyError> {
        let mut decoded = Decoded::default();
        let (mut number, mut at) = (1, 0);
        let failed = |number, at| move |source| JsonBodyError { number, at, source };
        let mut objects = JsonObjects::new(utf8(body).map_err(failed(number, at))?);
        loop {
            at = objects.at;
            let Some(json) = objects.next().map_err(failed(number, at))? else { return Ok(decoded) };
            if json.starts_with('{') {
                self.object(json, &mut decoded, sink).map_err(failed(number, at))?;
            } else {
                decoded.reject(|| format!("value {number} of the body is not a JSON object"));
            }
            number += 1;
        }
    }

    fn object(&mut self, json: &str, decoded: &mut Decoded, sink: &mut dyn EventSink) -> Result<(), serde_json::Error> {
        self.attributes.clear();
        self.stream.clear();
        let Self { names, stream, attributes } = self;
        let object = JsonObject::read(names, json, stream, attributes)?;
        let labels = stream.get();
        decoded.push(sink, &labels, &Event { time: object.time, line: object.line.as_bytes(), attributes });
        Ok(())
    }
}

/// Time and line of one object.
#[derive(Debug)]
pub(crate) struct JsonObject<'a> {
    /// The time that it states.
    pub(crate) time: Option<(Millis, u32)>,
    /// The message without line ends behind it, or the object as it is written.
    pub(crate) line: Cow<'a, str>,
}

impl<'a> JsonObject<'a> {
    /// Reads text that is one object. Its labels and attributes are added to those of the event.
    ///
    /// # Errors
    /// The text is not exactly one object; labels and attributes may have been added.
    pub(crate) fn read(
        names: &JsonNames,
        json: &'a str,
        stream: &mut StreamLabels,
        attributes: &mut AttributeList,
    ) -> Result<Self, serde_json::Error> {
        let (mut times, mut message) = ((usize::MAX, None), (usize::MAX, None));
        read_only_object(json.as_bytes(), |name, value| {
            prefer(&names.time, name, value, &mut times, stated_time);
            prefer(&names.message, name, value, &mut message, |value| string(value).map(|_| value));
            for label in &names.labels {
                if let Some(value) = member(label, name, value).filter(|value| !value.starts_with(['{', '['])) {
                    stream.push(label, &text(value), attributes);
                }
            }
        })?;
        let time = times.1;
        let Some(message) = message.1.and_then(string) else { return Ok(Self { time, line: Cow::Borrowed(json) }) };
        let used = |path: &str| {
            let is_message = names.message.iter().any(|name| name == path);
            is_message || names.time.iter().any(|name| name == path) || names.labels.iter().any(|name| name == path)
        };
        read_only_object(json.as_bytes(), |name, value| {
            if !used(name) {
                push_flattened(attributes, name, value);
            }
        })?;
        Ok(Self { time, line: without_line_ends(message) })
    }
}

fn without_line_ends(message: Cow<'_, str>) -> Cow<'_, str> {
    match message {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches(LINE_ENDS)),
        Cow::Owned(mut text) => {
            text.truncate(text.trim_end_matches(LINE_ENDS).len());
            Cow::Owned(text)
        }
    }
}

/// Replaces `best` by the value that a member has for a name before it, if `read` accepts it.
fn prefer<'a, T>(
    names: &[String],
    name: &str,
    json: &'a str,
    best: &mut (usize, Option<T>),
    read: impl Fn(&'a str) -> Option<T>,
) {
    for (rank, wanted) in names.iter().enumerate().take_while(|(rank, _)| *rank < best.0) {
        if let Some(found) = member(wanted, name, json).and_then(&read) {
            *best = (rank, Some(found));
            return;
        }
    }
}

/// The value of the wanted name in a member: the member itself, or a member of its object.
fn member<'a>(wanted: &str, name: &str, json: &'a str) -> Option<&'a str> {
    let rest = wanted.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(json);
    }
    let inner = rest.strip_prefix('.').filter(|_| json.starts_with('{'))?;
    let mut found = None;
    // The value was read once, so it has no error.
    let _ = read_only_object(json.as_bytes(), |name, json| found = found.take().or_else(|| member(inner, name, json)));
    found
}
