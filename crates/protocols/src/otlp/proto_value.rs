//! Values of attributes and bodies as protobuf: `AnyValue` and `KeyValue`.

use std::borrow::Cow;
use std::io::Write as _;

use super::{NESTING_MAX, OtlpError};
use crate::AttributeList;
use crate::json_text::{non_finite_name, write_bytes, write_double, write_string};
use crate::protobuf::{ProtobufField, ProtobufFields, ProtobufValue};

/// Replaces `value` by the text of a `KeyValue`'s value, and returns its key.
pub(super) fn key_value<'a>(message: &'a [u8], value: &mut Vec<u8>) -> Result<Cow<'a, str>, OtlpError> {
    value.clear();
    let (key, stated) = split_key_value(message)?;
    write_value(stated, value)?;
    Ok(String::from_utf8_lossy(key))
}

/// Adds a `KeyValue` to the attributes.
pub(super) fn push_key_value(message: &[u8], attributes: &mut AttributeList) -> Result<(), OtlpError> {
    let (key, stated) = split_key_value(message)?;
    let mut written = Ok(());
    // After an error, the record is not used.
    attributes.push_parts(&[&String::from_utf8_lossy(key)], |out| written = write_value(stated, out));
    written
}

/// The text of an `AnyValue` that is a string, in place; `None` for other values.
pub(super) fn text(message: &[u8]) -> Result<Option<&[u8]>, OtlpError> {
    Ok(match any_value(message)? {
        Some(ProtobufField { number: 1, value: ProtobufValue::Bytes(text) }) => Some(text),
        _ => None,
    })
}

/// The key of a `KeyValue`, and its value, which is empty if there is none.
fn split_key_value(message: &[u8]) -> Result<(&[u8], &[u8]), OtlpError> {
    let (mut key, mut value) = (&[][..], &[][..]);
    let mut fields = ProtobufFields::new(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => key = field.bytes()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Appends the text of an `AnyValue`: a string or bytes as they are, an array or a map as JSON, other values as in JSON.
pub(super) fn write_value(message: &[u8], out: &mut Vec<u8>) -> Result<(), OtlpError> {
    let Some(field) = any_value(message)? else { return Ok(()) };
    match (field.number, field.value) {
        (1 | 7, ProtobufValue::Bytes(text)) => out.extend_from_slice(text),
        (4, ProtobufValue::Fixed64(bits)) => match f64::from_bits(bits) {
            finite if finite.is_finite() => write_double(finite, out),
            other => out.extend_from_slice(non_finite_name(other).as_bytes()),
        },
        _ => write_json(field, out, NESTING_MAX)?,
    }
    Ok(())
}

/// The field of an `AnyValue` that is set: the last one.
fn any_value(message: &[u8]) -> Result<Option<ProtobufField<'_>>, OtlpError> {
    let (mut last, mut fields) = (None, ProtobufFields::new(message));
    while let Some(field) = fields.next()? {
        if (1..=7).contains(&field.number) {
            last = Some(field);
        }
    }
    Ok(last)
}

fn write_json(field: ProtobufField<'_>, out: &mut Vec<u8>, depth_left: u32) -> Result<(), OtlpError> {
    if depth_left == 0 {
        return Err(OtlpError::Nesting);
    }
    match field.number {
        1 => write_string(field.bytes()?, out),
        2 => out.extend_from_slice(if field.varint()? == 0 { b"false" } else { b"true" }),
        // A `Vec` takes everything.
        3 => drop(write!(out, "{}", field.varint()? as i64)),
        4 => write_double(f64::from_bits(field.fixed64()?), out),
        5 => {
            out.push(b'[');
            write_members(field.bytes()?, out, |value, out| write_json_value(value, out, depth_left))?;
            out.push(b']');
        }
        6 => {
            out.push(b'{');
            write_members(field.bytes()?, out, |pair, out| {
                let (key, value) = split_key_value(pair)?;
                write_string(key, out);
                out.push(b':');
                write_json_value(value, out, depth_left)
            })?;
            out.push(b'}');
        }
        _ => write_bytes(field.bytes()?, out),
    }
    Ok(())
}

/// Appends the members of an array or map, with commas between.
fn write_members(
    message: &[u8],
    out: &mut Vec<u8>,
    mut write: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), OtlpError>,
) -> Result<(), OtlpError> {
    let (mut fields, mut is_first) = (ProtobufFields::new(message), true);
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            write(field.bytes()?, out)?;
        }
    }
    Ok(())
}

fn write_json_value(message: &[u8], out: &mut Vec<u8>, depth_left: u32) -> Result<(), OtlpError> {
    match any_value(message)? {
        Some(field) => write_json(field, out, depth_left - 1)?,
        None => out.extend_from_slice(b"null"),
    }
    Ok(())
}
