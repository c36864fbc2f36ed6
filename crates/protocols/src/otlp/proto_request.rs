//! Requests as protobuf, read in place.
//!
//! The fields of a message may have any order, so a resource may follow its records. Each message that contains others is
//! therefore passed over twice: once for the resource or scope, once for what belongs to it. A pass over the fields of a
//! message costs no more than their number, as contained messages are skipped by their length.

use super::OtlpError;
use super::log_record::{LogFields, OtlpRecordWriter};
use super::proto_value::{key_value, push_key_value, text, write_value};
use crate::protobuf::ProtobufFields;
use crate::{Decoded, EventSink, ProtobufError};

/// Decodes an `ExportLogsServiceRequest`.
pub(super) fn decode(
    body: &[u8],
    writer: &mut OtlpRecordWriter,
    sink: &mut dyn EventSink,
) -> Result<Decoded, OtlpError> {
    let mut decoded = Decoded::default();
    for_each(body, 1, |resource_logs| {
        resource(resource_logs, writer)?;
        for_each(resource_logs, 2, |scope_logs| {
            scope(scope_logs, writer)?;
            for_each(scope_logs, 2, |record| log_record(record, writer, &mut decoded, sink))
        })
    })?;
    Ok(decoded)
}

/// Calls `visit` with each message that is a field with this number.
fn for_each<'a>(
    message: &'a [u8],
    number: u32,
    mut visit: impl FnMut(&'a [u8]) -> Result<(), OtlpError>,
) -> Result<(), OtlpError> {
    let mut fields = ProtobufFields::new(message);
    while let Some(field) = fields.next()? {
        if field.number == number {
            visit(field.bytes()?)?;
        }
    }
    Ok(())
}

fn resource(resource_logs: &[u8], writer: &mut OtlpRecordWriter) -> Result<(), OtlpError> {
    writer.begin_resource();
    for_each(resource_logs, 1, |resource| {
        for_each(resource, 1, |attribute| {
            let name = key_value(attribute, &mut writer.value)?;
            writer.resource_attribute(&name);
            Ok(())
        })
    })?;
    writer.end_resource();
    Ok(())
}

fn scope(scope_logs: &[u8], writer: &mut OtlpRecordWriter) -> Result<(), OtlpError> {
    writer.begin_scope();
    for_each(scope_logs, 1, |scope| {
        let mut fields = ProtobufFields::new(scope);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => writer.scope_field("otel.scope.name", field.bytes()?),
                2 => writer.scope_field("otel.scope.version", field.bytes()?),
                3 => {
                    let name = key_value(field.bytes()?, &mut writer.value)?;
                    writer.attribute(&name);
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    writer.end_scope();
    Ok(())
}

fn log_record(
    record: &[u8],
    writer: &mut OtlpRecordWriter,
    decoded: &mut Decoded,
    sink: &mut dyn EventSink,
) -> Result<(), OtlpError> {
    writer.begin_record();
    let mut log = LogFields::default();
    let mut fields = ProtobufFields::new(record);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => log.time = field.fixed64()?,
            2 => log.severity_number = field.varint()? as i64,
            3 => log.severity_text = field.bytes()?,
            5 => {
                log.has_body = true;
                log.body_text = text(field.bytes()?)?;
                writer.line.clear();
                if log.body_text.is_none() {
                    write_value(field.bytes()?, &mut writer.line)?;
                }
            }
            6 => push_key_value(field.bytes()?, &mut writer.attributes)?,
            7 => log.dropped_attributes = field.varint()?,
            8 => log.flags = field.fixed32()?,
            9 => log.trace_id = id(field.bytes()?)?,
            10 => log.span_id = id(field.bytes()?)?,
            11 => log.observed_time = field.fixed64()?,
            12 => log.event_name = field.bytes()?,
            _ => {}
        }
    }
    writer.end_record(&log, decoded, sink);
    Ok(())
}

/// An id of a trace or span. One that is longer than any id would double its size as text, so it is refused.
fn id(bytes: &[u8]) -> Result<&[u8], OtlpError> {
    if bytes.len() <= 16 { Ok(bytes) } else { Err(ProtobufError::WrongType(9).into()) }
}
