//! Records as line, labels and attributes.

use bucksaw_record::{AttributeNames, InvalidAttributes};

use super::error::EntryError;
use super::json::{write_json, write_other_key, write_text};
use super::{MsgpackError, MsgpackReader, MsgpackValue};
use crate::AttributeList;
use crate::stream_labels::{HOST_NAME, StreamLabels};

/// Keys of the line, the preferred one first.
const LINE_KEYS: [&[u8]; 3] = [b"log", b"message", b"msg"];

/// Keys of the label `host.name`, the preferred one first.
const HOST_KEYS: [&[u8]; 2] = [b"host", b"hostname"];

/// Keys of the label `container.name`.
const CONTAINER_KEYS: [&[u8]; 1] = [b"container_name"];

/// The maximum depth to which maps are opened. A deeper map stays JSON text.
const FLATTEN_DEPTH_MAX: u32 = 8;

/// The pairs of a record that are no attributes, by their positions.
#[derive(Debug, Default)]
struct KnownPairs {
    line: KnownPair,
    host: KnownPair,
    container: KnownPair,
}

/// The first pair with the preferred one of several keys, if its value is a string: the rank of its key, and its position.
#[derive(Debug, Default)]
struct KnownPair(Option<(usize, u64)>);

impl KnownPair {
    fn consider(&mut self, keys: &[&[u8]], key: &[u8], position: u64) {
        if let Some(rank) = keys.iter().position(|known| *known == key)
            && self.0.is_none_or(|(best, _)| rank < best)
        {
            self.0 = Some((rank, position));
        }
    }

    fn is_at(&self, position: u64) -> bool {
        self.0.is_some_and(|(_, known)| known == position)
    }
}

impl KnownPairs {
    /// Adds the value of the pair at `position` as a label, if it is one. Returns whether it was added.
    fn push_label(&self, position: u64, value: MsgpackValue<'_>, stream: &mut StreamLabels) -> bool {
        let (MsgpackValue::Text(text) | MsgpackValue::Binary(text)) = value else { return false };
        let (label, text) = if self.host.is_at(position) {
            (HOST_NAME, text)
        } else if self.container.is_at(position) {
            // Docker writes a slash in front.
            ("container.name", text.strip_prefix(b"/").unwrap_or(text))
        } else {
            return false;
        };
        str::from_utf8(text).is_ok_and(|text| stream.try_push(label, text))
    }
}

/// Reads `record`, which is a map. Appends its line to `line`, and adds its labels and attributes to the others of the event.
pub(super) fn read_record(
    record: &[u8],
    line: &mut Vec<u8>,
    stream: &mut StreamLabels,
    attributes: &mut AttributeList,
    path: &mut String,
) -> Result<(), EntryError> {
    let known = known_pairs(record)?;
    let mut values = MsgpackReader::new(record);
    let MsgpackValue::Map(count) = values.value()? else { return Err(EntryError::Record) };
    let has_line = known.line.0.is_some();
    for position in 0..count {
        // Without a line all pairs are in its JSON, and are fields at query time.
        if has_line {
            path.clear();
            push_key(&mut values, path)?;
        } else {
            values.skip(1)?;
        }
        let mut ahead = values;
        let value = ahead.value()?;
        if known.line.is_at(position) {
            write_text(&mut values, line)?;
        } else if known.push_label(position, value, stream) {
            values = ahead;
        } else if has_line {
            flatten(&mut values, path, attributes, FLATTEN_DEPTH_MAX)?;
        } else {
            values.skip(1)?;
        }
    }
    if !has_line {
        write_json(&mut MsgpackReader::new(record), line)?;
    } else if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(())
}

/// Adds the pairs of a map as attributes. Without effect for another value.
pub(super) fn push_map(map: &[u8], attributes: &mut AttributeList, path: &mut String) -> Result<(), EntryError> {
    let mut values = MsgpackReader::new(map);
    let MsgpackValue::Map(count) = values.value()? else { return Ok(()) };
    for _ in 0..count {
        path.clear();
        push_key(&mut values, path)?;
        flatten(&mut values, path, attributes, FLATTEN_DEPTH_MAX)?;
    }
    Ok(())
}

/// Finds the line and the labels of a record.
fn known_pairs(record: &[u8]) -> Result<KnownPairs, MsgpackError> {
    let mut known = KnownPairs::default();
    let mut values = MsgpackReader::new(record);
    let MsgpackValue::Map(count) = values.value()? else { return Ok(known) };
    for position in 0..count {
        let (key, value) = (values.raw()?, values.raw()?);
        let (Some(key), Some(_)) = (string(key)?, string(value)?) else { continue };
        known.line.consider(&LINE_KEYS, key, position);
        known.host.consider(&HOST_KEYS, key, position);
        known.container.consider(&CONTAINER_KEYS, key, position);
    }
    Ok(known)
}

/// The bytes of a string or of binary data.
fn string(value: &[u8]) -> Result<Option<&[u8]>, MsgpackError> {
    match MsgpackReader::new(value).value()? {
        MsgpackValue::Text(text) | MsgpackValue::Binary(text) => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// Adds the next value as the attribute `path`, and the pairs of a map as `path.key`.
///
/// The limits of attributes are checked here, so that a long name is not copied for each of the pairs in its map.
fn flatten(
    values: &mut MsgpackReader<'_>,
    path: &mut String,
    attributes: &mut AttributeList,
    depth_left: u32,
) -> Result<(), EntryError> {
    let mut ahead = *values;
    match ahead.value()? {
        MsgpackValue::Nil => *values = ahead,
        _ if path.is_empty() => values.skip(1)?,
        MsgpackValue::Map(count) if count > 0 && depth_left > 0 => {
            let length = path.len();
            for _ in 0..count {
                path.push('.');
                push_key(&mut ahead, path)?;
                flatten(&mut ahead, path, attributes, depth_left - 1)?;
                path.truncate(length);
            }
            *values = ahead;
        }
        _ if attributes.len() >= AttributeNames::COUNT_MAX => return Err(InvalidAttributes::TooMany.into()),
        _ => {
            let mut result = Ok(());
            attributes.push_parts(&[path.as_str()], |out| result = write_text(values, out));
            result?;
        }
    }
    Ok(())
}

/// Appends the next value to a name.
fn push_key(values: &mut MsgpackReader<'_>, path: &mut String) -> Result<(), EntryError> {
    let mut ahead = *values;
    match ahead.value()? {
        MsgpackValue::Text(key) | MsgpackValue::Binary(key) => {
            *values = ahead;
            append_key(key, path)
        }
        _ => {
            let mut key = Vec::new();
            write_other_key(values, &mut key)?;
            append_key(&key, path)
        }
    }
}

fn append_key(key: &[u8], path: &mut String) -> Result<(), EntryError> {
    if path.len() + key.len() <= AttributeNames::NAME_BYTES_MAX {
        match str::from_utf8(key) {
            Ok(key) => path.push_str(key),
            Err(_) => path.push_str(&String::from_utf8_lossy(key)),
        }
        return Ok(());
    }
    let start = String::from_utf8_lossy(key.get(..key.len().min(40)).unwrap_or_default());
    Err(InvalidAttributes::NameLength(path.chars().chain(start.chars()).take(40).collect()).into())
}
