//! Push requests as JSON.
//!
//! The labels of a stream may follow its entries, so the entries are kept as a slice of the body until the labels are known.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::LokiError;
use super::stream::PushStream;
use crate::json_members::{push_value, read_only_object, string, text, utf8};
use crate::{Decoded, EventSink};

/// Decodes the JSON of a push request.
pub(super) fn decode(body: &[u8], stream: &mut PushStream, sink: &mut dyn EventSink) -> Result<Decoded, LokiError> {
    let mut decoded = Decoded::default();
    let mut streams = "[]";
    let mut is_push = false;
    utf8(body)?;
    read_only_object(body, |name, json| {
        if name == "streams" {
            (streams, is_push) = (json, true);
        }
    })?;
    if !is_push {
        return Err(LokiError::Json(Error::missing_field("streams")));
    }
    each_item(streams, |json| decode_stream(json, stream, &mut decoded, sink))?;
    Ok(decoded)
}

fn decode_stream(
    json: &str,
    stream: &mut PushStream,
    decoded: &mut Decoded,
    sink: &mut dyn EventSink,
) -> Result<(), LokiError> {
    let (mut labels, mut values) = ("{}", "[]");
    read_only_object(json.as_bytes(), |name, json| match name {
        "stream" => labels = json,
        "values" => values = json,
        _ => {}
    })?;
    stream.begin_stream();
    read_only_object(labels.as_bytes(), |name, json| stream.label(name, &text(json)))?;
    stream.end_labels();
    each_item(values, |json| entry(json, stream, decoded, sink))
}

/// An entry is an array of its time, its line and, optionally, an object of structured metadata.
fn entry(
    json: &str,
    stream: &mut PushStream,
    decoded: &mut Decoded,
    sink: &mut dyn EventSink,
) -> Result<(), LokiError> {
    stream.begin_entry();
    let (mut time, mut line, mut at) = (None, "\"\"", 0);
    each_item(json, |part| {
        match at {
            0 => time = Some(nanoseconds(part)?),
            1 => line = part,
            2 if part != "null" => {
                read_only_object(part.as_bytes(), |name, json| push_value(&mut stream.attributes, name, json))?;
            }
            _ => {}
        }
        at += 1;
        Ok(())
    })?;
    let line = string(line).filter(|_| at >= 2);
    let line = line.ok_or_else(|| Error::custom("an entry is not [\"nanoseconds\", \"line\"]"));
    stream.end_entry(time.flatten(), line.map_err(LokiError::Json)?.as_bytes(), decoded, sink);
    Ok(())
}

/// A time as text or as a number; `None` before 1970.
fn nanoseconds(json: &str) -> Result<Option<u128>, LokiError> {
    let text = text(json);
    let nanos = text.parse::<i128>().map_err(|_| LokiError::Time(text.chars().take(40).collect()))?;
    Ok(u128::try_from(nanos).ok())
}

/// Calls `visit` with the JSON of each item of an array, until it fails.
fn each_item<'a>(json: &'a str, mut visit: impl FnMut(&'a str) -> Result<(), LokiError>) -> Result<(), LokiError> {
    let mut failed = None;
    let visitor = ItemsVisitor(|item: &'a RawValue| match visit(item.get()) {
        Ok(()) => true,
        Err(error) => {
            failed = Some(error);
            false
        }
    });
    let read = visitor.deserialize(&mut serde_json::Deserializer::from_str(json));
    match failed {
        Some(error) => Err(error),
        None => Ok(read?),
    }
}

/// Visits the items of an array until the function returns false.
struct ItemsVisitor<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> DeserializeSeed<'de> for ItemsVisitor<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for ItemsVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element::<&'de RawValue>()? {
            if !(self.0)(item) {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
