//! Values of attributes and bodies as JSON, and the JSON text of values.

use std::borrow::Cow;

use base64::Engine as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::json_parts::{JsonBytes, JsonInteger};
use super::{NESTING_MAX, OtlpError};
use crate::json_members::read_items;
use crate::json_text::{write_bytes, write_double, write_string};

/// An `AnyValue`. At most one member is set.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct JsonAnyValue<'a> {
    string_value: Option<JsonBytes<'a>>,
    bool_value: Option<bool>,
    int_value: Option<JsonInteger>,
    /// A number, or the text of a number that JSON has not, such as `"NaN"`.
    double_value: Option<&'a RawValue>,
    array_value: Option<JsonValues<'a>>,
    kvlist_value: Option<JsonValues<'a>>,
    bytes_value: Option<JsonBytes<'a>>,
}

/// An `ArrayValue` or a `KeyValueList`, whose values are decoded later.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonValues<'a> {
    #[serde(borrow)]
    values: Option<&'a RawValue>,
}

/// A `KeyValue`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct JsonKeyValue<'a> {
    key: JsonBytes<'a>,
    value: Option<&'a RawValue>,
}

impl<'a> JsonKeyValue<'a> {
    /// Replaces `value` by the text of the value, and returns the key.
    pub(super) fn read(&self, value: &mut Vec<u8>) -> Result<Cow<'_, str>, OtlpError> {
        value.clear();
        if let Some(json) = self.value {
            write_value(json, value)?;
        }
        Ok(String::from_utf8_lossy(&self.key.0))
    }
}

/// Appends the text of an `AnyValue`, as for protobuf.
pub(super) fn write_value(json: &RawValue, out: &mut Vec<u8>) -> Result<(), OtlpError> {
    let Some(value) = serde_json::from_str::<Option<JsonAnyValue<'_>>>(json.get())? else { return Ok(()) };
    match value {
        JsonAnyValue { string_value: Some(text), .. } => out.extend_from_slice(&text.0),
        JsonAnyValue { bytes_value: Some(text), .. } => out.extend_from_slice(&decode_base64(&text.0)?),
        JsonAnyValue { double_value: Some(json), .. } if json.get().starts_with('"') => {
            out.extend_from_slice(&serde_json::from_str::<JsonBytes<'_>>(json.get())?.0);
        }
        value => write_json(&value, out, NESTING_MAX, false)?,
    }
    Ok(())
}

/// The bytes of a `bytesValue`. Protobuf accepts both alphabets, with and without padding.
fn decode_base64(text: &[u8]) -> Result<Vec<u8>, OtlpError> {
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    const ANY_PADDING: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        &base64::alphabet::URL_SAFE
    } else {
        &base64::alphabet::STANDARD
    };
    let error = |error| serde::de::Error::custom(format_args!("invalid bytesValue: {error}"));
    GeneralPurpose::new(alphabet, ANY_PADDING).decode(text).map_err(|cause| OtlpError::Json(error(cause)))
}

/// Appends a value as JSON. `is_inner`: it is a member of an array or map.
fn write_json(value: &JsonAnyValue<'_>, out: &mut Vec<u8>, depth_left: u32, is_inner: bool) -> Result<(), OtlpError> {
    if depth_left == 0 {
        return Err(OtlpError::Nesting);
    }
    match value {
        JsonAnyValue { string_value: Some(text), .. } => write_string(&text.0, out),
        JsonAnyValue { bool_value: Some(flag), .. } => {
            out.extend_from_slice(if *flag { b"true" } else { b"false" });
        }
        JsonAnyValue { int_value: Some(number), .. } => out.extend_from_slice(number.0.to_string().as_bytes()),
        JsonAnyValue { double_value: Some(json), .. } => match json.get().parse() {
            // `serde_json` itself rounds the last digit of some numbers.
            Ok(number) => write_double(number, out),
            Err(_) => write_string(&serde_json::from_str::<JsonBytes<'_>>(json.get())?.0, out),
        },
        JsonAnyValue { array_value: Some(list), .. } => {
            out.push(b'[');
            write_members(list, out, |json, out| {
                write_inner(&serde_json::from_str::<Option<JsonAnyValue<'_>>>(json)?, out, depth_left)
            })?;
            out.push(b']');
        }
        JsonAnyValue { kvlist_value: Some(list), .. } => {
            out.push(b'{');
            write_members(list, out, |json, out| {
                let pair: JsonKeyValue<'_> = serde_json::from_str(json)?;
                write_string(&pair.key.0, out);
                out.push(b':');
                let value = pair.value.map(|json| serde_json::from_str::<Option<JsonAnyValue<'_>>>(json.get()));
                write_inner(&value.transpose()?.flatten(), out, depth_left)
            })?;
            out.push(b'}');
        }
        JsonAnyValue { bytes_value: Some(text), .. } => write_bytes(&decode_base64(&text.0)?, out),
        _ if is_inner => out.extend_from_slice(b"null"),
        _ => {}
    }
    Ok(())
}

fn write_inner(value: &Option<JsonAnyValue<'_>>, out: &mut Vec<u8>, depth_left: u32) -> Result<(), OtlpError> {
    match value {
        Some(value) => write_json(value, out, depth_left - 1, true)?,
        None => out.extend_from_slice(b"null"),
    }
    Ok(())
}

/// Appends the members of an array or map, with commas between.
fn write_members(
    list: &JsonValues<'_>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&str, &mut Vec<u8>) -> Result<(), OtlpError>,
) -> Result<(), OtlpError> {
    let Some(values) = list.values else { return Ok(()) };
    let mut is_first = true;
    read_items(values.get(), |json| {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        write(json, out)
    })
}
