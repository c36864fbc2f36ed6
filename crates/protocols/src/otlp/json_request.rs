//! Requests as JSON.
//!
//! OTLP uses the JSON mapping of protobuf, with exceptions: ids are hexadecimal, enums are numbers, and names are in
//! lower camel case. Integers of 64 bits are strings, but numbers are accepted too. Unknown members are ignored.
//!
//! A resource may follow its records, so a request is read in two passes. The first keeps the bounds of each record;
//! the second decodes the records one by one. The first pass drops resources and scopes without records, so its memory
//! is a small multiple of the body.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::OtlpError;
use super::json_parts::{JsonBytes, JsonInteger, JsonSeverity};
use super::json_value::{JsonKeyValue, write_value};
use super::log_record::{LogFields, OtlpRecordWriter};
use crate::json_members::{read_items, utf8};
use crate::{Decoded, EventSink};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct JsonRequest<'a> {
    #[serde(deserialize_with = "not_empty")]
    resource_logs: Vec<JsonResourceLogs<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct JsonResourceLogs<'a> {
    resource: Option<&'a RawValue>,
    #[serde(deserialize_with = "not_empty")]
    scope_logs: Vec<JsonScopeLogs<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct JsonScopeLogs<'a> {
    scope: Option<&'a RawValue>,
    log_records: Option<&'a RawValue>,
}

/// A resource or a scope, which is dropped if it has no records.
trait MayBeEmpty {
    fn is_empty(&self) -> bool;
}

impl MayBeEmpty for JsonResourceLogs<'_> {
    fn is_empty(&self) -> bool {
        self.scope_logs.is_empty()
    }
}

impl MayBeEmpty for JsonScopeLogs<'_> {
    fn is_empty(&self) -> bool {
        self.log_records.is_none_or(|records| records.get() == "[]")
    }
}

/// A resource or a scope.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct JsonEntity<'a> {
    name: JsonBytes<'a>,
    version: JsonBytes<'a>,
    attributes: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct JsonLogRecord<'a> {
    time_unix_nano: JsonInteger,
    observed_time_unix_nano: JsonInteger,
    severity_number: JsonSeverity,
    severity_text: JsonBytes<'a>,
    body: Option<&'a RawValue>,
    attributes: Option<&'a RawValue>,
    dropped_attributes_count: JsonInteger,
    flags: JsonInteger,
    trace_id: JsonBytes<'a>,
    span_id: JsonBytes<'a>,
    event_name: JsonBytes<'a>,
}

/// Decodes an `ExportLogsServiceRequest`.
pub(super) fn decode(
    body: &[u8],
    writer: &mut OtlpRecordWriter,
    sink: &mut dyn EventSink,
) -> Result<Decoded, OtlpError> {
    let mut decoded = Decoded::default();
    let body = utf8(body)?;
    // The parser would take an array for the members in order.
    if !body.trim_start().starts_with('{') {
        return Err(OtlpError::Json(Error::custom("expected a JSON object")));
    }
    let request: JsonRequest<'_> = serde_json::from_str(body)?;
    for resource_logs in &request.resource_logs {
        writer.begin_resource();
        let resource = entity(resource_logs.resource)?;
        each_attribute(resource.attributes, writer, OtlpRecordWriter::resource_attribute)?;
        writer.end_resource();
        for scope_logs in &resource_logs.scope_logs {
            writer.begin_scope();
            let scope = entity(scope_logs.scope)?;
            writer.scope_field("otel.scope.name", &scope.name.0);
            writer.scope_field("otel.scope.version", &scope.version.0);
            each_attribute(scope.attributes, writer, OtlpRecordWriter::attribute)?;
            writer.end_scope();
            let Some(records) = scope_logs.log_records else { continue };
            read_items(records.get(), |record| log_record(record, writer, &mut decoded, sink))?;
        }
    }
    Ok(decoded)
}

fn entity(json: Option<&RawValue>) -> Result<JsonEntity<'_>, OtlpError> {
    let entity = json.map(|json| serde_json::from_str::<Option<JsonEntity<'_>>>(json.get())).transpose()?;
    Ok(entity.flatten().unwrap_or_default())
}

fn each_attribute(
    json: Option<&RawValue>,
    writer: &mut OtlpRecordWriter,
    add: fn(&mut OtlpRecordWriter, &str),
) -> Result<(), OtlpError> {
    let Some(json) = json else { return Ok(()) };
    read_items(json.get(), |pair| {
        let pair: JsonKeyValue<'_> = serde_json::from_str(pair)?;
        let name = pair.read(&mut writer.value)?;
        add(writer, &name);
        Ok(())
    })
}

fn log_record(
    json: &str,
    writer: &mut OtlpRecordWriter,
    decoded: &mut Decoded,
    sink: &mut dyn EventSink,
) -> Result<(), OtlpError> {
    writer.begin_record();
    let record: JsonLogRecord<'_> = serde_json::from_str(json)?;
    if let Some(body) = record.body {
        write_value(body, &mut writer.line)?;
    }
    each_attribute(record.attributes, writer, OtlpRecordWriter::attribute)?;
    let (mut trace_id, mut span_id) = ([0; 16], [0; 8]);
    let fields = LogFields {
        time: record.time_unix_nano.unsigned(),
        observed_time: record.observed_time_unix_nano.unsigned(),
        severity_number: record.severity_number.0,
        severity_text: &record.severity_text.0,
        trace_id: hex_id(&record.trace_id.0, &mut trace_id)?,
        span_id: hex_id(&record.span_id.0, &mut span_id)?,
        flags: record.flags.unsigned() as u32,
        event_name: &record.event_name.0,
        dropped_attributes: record.dropped_attributes_count.unsigned(),
        body_text: None,
        has_body: record.body.is_some(),
    };
    writer.end_record(&fields, decoded, sink);
    Ok(())
}

/// The id of hexadecimal digits, in either case; empty if there is none.
fn hex_id<'a>(digits: &[u8], id: &'a mut [u8]) -> Result<&'a [u8], OtlpError> {
    if digits.is_empty() {
        return Ok(&[]);
    }
    let is_id = digits.len() == id.len() * 2 && digits.iter().all(u8::is_ascii_hexdigit);
    let text = str::from_utf8(digits).ok().filter(|_| is_id);
    let Some(number) = text.and_then(|text| u128::from_str_radix(text, 16).ok()) else {
        let message = format_args!("`{}` is not an id of {} hexadecimal digits", digits.escape_ascii(), id.len() * 2);
        return Err(OtlpError::Json(Error::custom(message)));
    };
    id.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(byte, value)| *byte = value);
    Ok(id)
}

/// Reads a list, and leaves out items without records. `null` is an empty list.
fn not_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + MayBeEmpty>(json: D) -> Result<Vec<T>, D::Error> {
    struct ListVisitor<T>(Vec<T>);
    impl<'de, T: Deserialize<'de> + MayBeEmpty> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Vec<T>, A::Error> {
            while let Some(item) = list.next_element::<T>()? {
                if !item.is_empty() {
                    self.0.push(item);
                }
            }
            Ok(self.0)
        }

        fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
    }
    json.deserialize_any(ListVisitor(Vec::new()))
}
