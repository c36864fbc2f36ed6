//! Values as text: of attributes, and as JSON.

use std::io::Write as _;

use bucksaw_record::time::write_rfc3339;

use super::error::EntryError;
use super::time::extension_time;
use super::{MsgpackReader, MsgpackValue};
use crate::json_text::{non_finite_name, write_bytes, write_double, write_string};

/// Appends the next value as an attribute has it: strings and bytes as they are, other values as JSON. An array or map is read
/// to its end.
pub(super) fn write_text(values: &mut MsgpackReader<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let mut ahead = *values;
    match ahead.value()? {
        MsgpackValue::Text(text) | MsgpackValue::Binary(text) => out.extend_from_slice(text),
        MsgpackValue::Float32(number) if !number.is_finite() => {
            out.extend_from_slice(non_finite_name(f64::from(number)).as_bytes());
        }
        MsgpackValue::Float64(number) if !number.is_finite() => {
            out.extend_from_slice(non_finite_name(number).as_bytes());
        }
        MsgpackValue::Extension(kind, bytes) => match extension_time(kind, bytes) {
            Some((at, below)) => write_rfc3339(out, at, below),
            None => out.extend_from_slice(bytes),
        },
        _ => return write_json(values, out),
    }
    *values = ahead;
    Ok(())
}

/// Appends the next value as compact JSON, in its order.
///
/// Bytes are a string if they are UTF-8, else base64; times are RFC 3339 text. In a string, other bytes than UTF-8 are replaced.
pub(super) fn write_json(values: &mut MsgpackReader<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    match values.value()? {
        MsgpackValue::Nil => out.extend_from_slice(b"null"),
        MsgpackValue::Bool(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        // Writing to memory has no error.
        MsgpackValue::Unsigned(number) => drop(write!(out, "{number}")),
        MsgpackValue::Negative(number) => drop(write!(out, "{number}")),
        // As it is: a longer float would have more digits.
        MsgpackValue::Float32(number) if number.is_finite() => drop(serde_json::to_writer(out, &number)),
        MsgpackValue::Float32(number) => write_double(f64::from(number), out),
        MsgpackValue::Float64(number) => write_double(number, out),
        MsgpackValue::Text(text) => write_string(text, out),
        MsgpackValue::Binary(bytes) if str::from_utf8(bytes).is_ok() => write_string(bytes, out),
        MsgpackValue::Binary(bytes) => write_bytes(bytes, out),
        MsgpackValue::Extension(kind, bytes) => match extension_time(kind, bytes) {
            Some((at, below)) => {
                out.push(b'"');
                write_rfc3339(out, at, below);
                out.push(b'"');
            }
            None => write_bytes(bytes, out),
        },
        MsgpackValue::Array(count) => {
            out.push(b'[');
            for number in 0..count {
                write_comma(number, out);
                write_json(values, out)?;
            }
            out.push(b']');
        }
        MsgpackValue::Map(count) => {
            out.push(b'{');
            for number in 0..count {
                write_comma(number, out);
                write_key(values, out)?;
                out.push(b':');
                write_json(values, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_comma(number: u64, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b',');
    }
}

/// Appends the next value, a key, as a string.
fn write_key(values: &mut MsgpackReader<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let mut ahead = *values;
    match ahead.value()? {
        MsgpackValue::Text(key) | MsgpackValue::Binary(key) => {
            write_string(key, out);
            *values = ahead;
        }
        _ => {
            let mut key = Vec::new();
            write_other_key(values, &mut key)?;
            write_string(&key, out);
        }
    }
    Ok(())
}

/// Appends a key that is not a string, as text.
pub(super) fn write_other_key(values: &mut MsgpackReader<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let mut ahead = *values;
    match ahead.value()? {
        MsgpackValue::Array(_) | MsgpackValue::Map(_) => Err(EntryError::Key),
        _ => write_text(values, out),
    }
}
