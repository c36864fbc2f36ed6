//! Push requests as JSON.
//!
//! The labels of a stream may follow its entries, so the entries are kept as a slice of the body until the labels are known.

use serde::de::Error;

use super::LokiError;
use super::stream::PushStream;
use crate::json_members::{push_value, read_items, read_only_object, string, text, utf8};
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
    read_items(streams, |json| decode_stream(json, stream, &mut decoded, sink))?;
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
    read_items(values, |json| entry(json, stream, decoded, sink))
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
    read_items(json, |part| {
        match at {
            0 => time = Some(nanoseconds(part)?),
            1 => line = part,
            2 if part != "null" => {
                read_only_object(part.as_bytes(), |name, json| push_value(&mut stream.attributes, name, json))?;
            }
            _ => {}
        }
        at += 1;
        Ok::<(), LokiError>(())
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
