//! Push requests as protobuf, read in place.

use super::LokiError;
use super::selector::each_label;
use super::stream::PushStream;
use crate::protobuf::ProtobufFields;
use crate::{Decoded, EventSink};

/// Decodes a `PushRequest`.
pub(super) fn decode(body: &[u8], stream: &mut PushStream, sink: &mut dyn EventSink) -> Result<Decoded, LokiError> {
    let mut decoded = Decoded::default();
    let mut fields = ProtobufFields::new(body);
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            decode_stream(field.bytes()?, stream, &mut decoded, sink)?;
        }
    }
    Ok(decoded)
}

fn decode_stream(
    message: &[u8],
    stream: &mut PushStream,
    decoded: &mut Decoded,
    sink: &mut dyn EventSink,
) -> Result<(), LokiError> {
    // The labels may follow the entries.
    let (mut labels, mut fields) = (&[][..], ProtobufFields::new(message));
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            labels = field.bytes()?;
        }
    }
    stream.begin_stream();
    each_label(&String::from_utf8_lossy(labels), |name, value| stream.label(name, value))?;
    stream.end_labels();
    let mut fields = ProtobufFields::new(message);
    while let Some(field) = fields.next()? {
        if field.number == 2 {
            entry(field.bytes()?, stream, decoded, sink)?;
        }
    }
    Ok(())
}

fn entry(
    message: &[u8],
    stream: &mut PushStream,
    decoded: &mut Decoded,
    sink: &mut dyn EventSink,
) -> Result<(), LokiError> {
    stream.begin_entry();
    let (mut time, mut line, mut fields) = (None, &[][..], ProtobufFields::new(message));
    while let Some(field) = fields.next()? {
        match field.number {
            1 => time = timestamp(field.bytes()?)?,
            2 => line = field.bytes()?,
            3 => {
                let (mut name, mut value) = (&[][..], &[][..]);
                let mut pair = ProtobufFields::new(field.bytes()?);
                while let Some(field) = pair.next()? {
                    match field.number {
                        1 => name = field.bytes()?,
                        2 => value = field.bytes()?,
                        _ => {}
                    }
                }
                stream.attributes.push(&String::from_utf8_lossy(name), value);
            }
            _ => {}
        }
    }
    stream.end_entry(time, line, decoded, sink);
    Ok(())
}

/// Nanoseconds since 1970 of a `google.protobuf.Timestamp`; `None` before 1970.
fn timestamp(message: &[u8]) -> Result<Option<u128>, LokiError> {
    let (mut seconds, mut nanos, mut fields) = (0_i64, 0_i64, ProtobufFields::new(message));
    while let Some(field) = fields.next()? {
        match field.number {
            1 => seconds = field.varint()? as i64,
            2 => nanos = i64::from(field.varint()? as i32),
            _ => {}
        }
    }
    Ok(u128::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).ok())
}
