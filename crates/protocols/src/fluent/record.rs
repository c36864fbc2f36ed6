//! Records as line, labels and attributes.
//!
//! A record is visited twice: to find its end and its known pairs, and to take its pairs.

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
pub(super) const FLATTEN_DEPTH_MAX: u32 = 8;

/// The pairs of a record that are no attributes, by their positions.
#[derive(Debug, Default)]
pub(super) struct KnownPairs {
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
    /// Considers the pair at `position`, whose value is a string.
    fn consider(&mut self, key: &[u8], position: u64) {
        self.line.consider(&LINE_KEYS, key, position);
        self.host.consider(&HOST_KEYS, key, position);
        self.container.consider(&CONTAINER_KEYS, key, position);
    }

    /// The label that the pair at `position` is, if it is one.
    pub(super) fn label(&self, position: u64) -> Option<RecordLabel> {
        if self.host.is_at(position) {
            Some(RecordLabel::Host)
        } else if self.container.is_at(position) {
            Some(RecordLabel::Container)
        } else {
            None
        }
    }

    /// Whether the pair at `position` is the line.
    pub(super) fn is_line(&self, position: u64) -> bool {
        self.line.is_at(position)
    }
}

/// Whether a pair with this key can be the line or a label.
pub(super) fn is_known_key(key: &[u8]) -> bool {
    LINE_KEYS.contains(&key) || HOST_KEYS.contains(&key) || CONTAINER_KEYS.contains(&key)
}

/// A label of which the value is in the record.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordLabel {
    Host,
    Container,
}

impl RecordLabel {
    /// Adds the label. Returns false, without effect, if it cannot have this value.
    pub(super) fn try_push(self, text: &[u8], stream: &mut StreamLabels) -> bool {
        let (label, text) = match self {
            Self::Host => (HOST_NAME, text),
            // Docker writes a slash in front.
            Self::Container => ("container.name", text.strip_prefix(b"/").unwrap_or(text)),
        };
        str::from_utf8(text).is_ok_and(|text| stream.try_push(label, text))
    }
}

/// A record whose extent is known.
#[derive(Debug)]
pub(super) struct FluentRecord<'a> {
    /// Behind the head of a map, else at its start.
    values: MsgpackReader<'a>,
    start: MsgpackReader<'a>,
    kind: RecordKind,
}

#[derive(Debug)]
enum RecordKind {
    Nil,
    /// With this number of pairs.
    Map(u64, KnownPairs),
    /// Another value, which is no record.
    Other,
}

impl<'a> FluentRecord<'a> {
    /// Takes the next value.
    pub(super) fn take(values: &mut MsgpackReader<'a>) -> Result<Self, MsgpackError> {
        let start = *values;
        let mut behind_head = start;
        let kind = match behind_head.value()? {
            MsgpackValue::Map(count) => {
                *values = behind_head;
                let mut known = KnownPairs::default();
                for position in 0..count {
                    if let (Some(key), Some(_)) = (values.text_or_skip()?, values.text_or_skip()?) {
                        known.consider(key, position);
                    }
                }
                return Ok(Self { values: behind_head, start, kind: RecordKind::Map(count, known) });
            }
            MsgpackValue::Nil => RecordKind::Nil,
            _ => RecordKind::Other,
        };
        values.skip(1)?;
        Ok(Self { values: start, start, kind })
    }

    /// Whether it is nil, and no event.
    pub(super) fn is_nil(&self) -> bool {
        matches!(self.kind, RecordKind::Nil)
    }

    /// The number of pairs, those that are known, and the values behind the head, if it is a map with a line.
    pub(super) fn pairs_with_line(&self) -> Option<(u64, &KnownPairs, MsgpackReader<'a>)> {
        match &self.kind {
            RecordKind::Map(count, known) if known.line.0.is_some() => Some((*count, known, self.values)),
            _ => None,
        }
    }

    /// Its first byte and all that follow.
    pub(super) fn start(&self) -> MsgpackReader<'a> {
        self.start
    }
}

/// Reads a record, which is a map. Appends its line to `line`, and adds its labels and attributes to the others of the event.
pub(super) fn read_record(
    record: &FluentRecord<'_>,
    line: &mut Vec<u8>,
    stream: &mut StreamLabels,
    attributes: &mut AttributeList,
    path: &mut String,
) -> Result<(), EntryError> {
    let RecordKind::Map(count, known) = &record.kind else { return Err(EntryError::Record) };
    let mut values = record.values;
    let has_line = known.line.0.is_some();
    for position in 0..*count {
        if known.line.is_at(position) {
            values.skip(1)?;
            write_text(&mut values, line)?;
            continue;
        }
        // Without a line all pairs are in its JSON, and are fields at query time.
        if has_line {
            path.clear();
            push_key(&mut values, path)?;
        } else {
            values.skip(1)?;
        }
        let mut ahead = values;
        if let Some(label) = known.label(position)
            && let Some(text) = ahead.text_or_skip()?
            && label.try_push(text, stream)
        {
            values = ahead;
        } else if has_line {
            flatten(&mut values, path, attributes, FLATTEN_DEPTH_MAX)?;
        } else {
            values.skip(1)?;
        }
    }
    if !has_line {
        write_json(&mut record.start(), line)?;
    } else if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(())
}

/// Adds the pairs of a map as attributes. Without effect for another value.
pub(super) fn push_map(
    mut values: MsgpackReader<'_>,
    attributes: &mut AttributeList,
    path: &mut String,
) -> Result<(), EntryError> {
    let MsgpackValue::Map(count) = values.value()? else { return Ok(()) };
    for _ in 0..count {
        path.clear();
        push_key(&mut values, path)?;
        flatten(&mut values, path, attributes, FLATTEN_DEPTH_MAX)?;
    }
    Ok(())
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
        MsgpackValue::Text(text) | MsgpackValue::Binary(text) if attributes.len() < AttributeNames::COUNT_MAX => {
            attributes.push(path, text);
            *values = ahead;
        }
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
