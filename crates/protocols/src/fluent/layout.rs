//! Records with the keys of the record before.
//!
//! The records of a message have the same keys as a rule. What becomes of each pair is found once, and further records are read
//! in one pass that compares their encoded keys. A record in which anything differs is read as any other.

use std::ops::Range;

use super::json::write_text;
use super::record::{FluentRecord, RecordLabel, is_known_key};
use super::{MsgpackReader, MsgpackValue};
use crate::AttributeList;
use crate::stream_labels::StreamLabels;

/// The keys of a record, and what becomes of each pair.
#[derive(Debug, Default)]
pub(super) struct RecordLayout {
    /// The keys as encoded, the head of the map before the first.
    keys: Vec<u8>,
    /// Empty if there is no layout.
    pairs: Vec<LayoutPair>,
    /// The number of attributes before those of the record.
    attributes_before: usize,
    /// How many records are not learned, because it was in vain before.
    pause: u32,
    pause_next: u32,
}

/// The most records that are not learned in a row: keys that begin to repeat are missed for that long.
const PAUSE_MAX: u32 = 64;

#[derive(Debug)]
struct LayoutPair {
    /// The key in `keys`.
    key: Range<usize>,
    part: RecordPart,
}

/// What a pair of a record is.
#[derive(Clone, Copy, Debug)]
enum RecordPart {
    Line,
    Label(RecordLabel),
    Attribute,
}

impl RecordLayout {
    /// Forgets the keys.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.pairs.clear();
    }

    /// Whether there are no keys.
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Takes the keys of a record that was read, if it has a line and each other pair is one label or attribute. `attributes` has
    /// those of the record behind the first `attributes_before`, and keeps their names until the next call of [`Self::read`].
    pub(super) fn learn(&mut self, record: &FluentRecord<'_>, attributes: &AttributeList, attributes_before: usize) {
        self.clear();
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        // Until a record has these keys.
        (self.pause, self.pause_next) = (self.pause_next, (2 * self.pause_next).clamp(1, PAUSE_MAX));
        self.attributes_before = attributes_before;
        let count = self.take_pairs(record).and(attributes.len().checked_sub(attributes_before));
        let is_attribute = |pair: &&LayoutPair| matches!(pair.part, RecordPart::Attribute);
        if count != Some(self.pairs.iter().filter(is_attribute).count()) {
            self.clear();
        }
    }

    fn take_pairs(&mut self, record: &FluentRecord<'_>) -> Option<()> {
        let (count, known, mut values) = record.pairs_with_line()?;
        let mut start = record.start();
        for position in 0..count {
            let mut key = values;
            values.skip(1).ok()?;
            let key_start = self.keys.len();
            self.keys.extend_from_slice(start.until(&values));
            let key_is_known = key.text_or_skip().ok()?.is_some_and(is_known_key);
            let part = match (values.value().ok()?, known.label(position)) {
                (MsgpackValue::Text(_) | MsgpackValue::Binary(_), Some(label)) => RecordPart::Label(label),
                (MsgpackValue::Text(_) | MsgpackValue::Binary(_), None) if known.is_line(position) => RecordPart::Line,
                (MsgpackValue::Text(_) | MsgpackValue::Binary(_), None) => RecordPart::Attribute,
                // No attribute, or several.
                (MsgpackValue::Nil | MsgpackValue::Map(_) | MsgpackValue::Array(_), _) => return None,
                // With a string as value it could be preferred to what is the line or a label here.
                _ if key_is_known => return None,
                _ => RecordPart::Attribute,
            };
            self.pairs.push(LayoutPair { key: key_start..self.keys.len(), part });
            start = values;
        }
        Some(())
    }

    /// Reads the next value if it is a record with these keys. Adds its labels, gives the attributes behind those before the
    /// record their values, and returns the line. `None` if the record must be read as any other, after the labels and
    /// attributes are reset. Not for a layout without keys.
    pub(super) fn read<'a>(
        &mut self,
        values: &mut MsgpackReader<'a>,
        stream: &mut StreamLabels,
        attributes: &mut AttributeList,
    ) -> Option<&'a [u8]> {
        attributes.clear_values(self.attributes_before);
        let (mut line, mut attribute) = (None, self.attributes_before);
        for LayoutPair { key, part } in &self.pairs {
            values.strip(self.keys.get(key.clone())?)?;
            let mut ahead = *values;
            let value = ahead.value().ok()?;
            match (part, value) {
                (RecordPart::Line, MsgpackValue::Text(text) | MsgpackValue::Binary(text)) => line = Some(text),
                (RecordPart::Label(label), MsgpackValue::Text(text) | MsgpackValue::Binary(text)) => {
                    if !label.try_push(text, stream) {
                        return None;
                    }
                }
                (RecordPart::Attribute, MsgpackValue::Text(text) | MsgpackValue::Binary(text)) => {
                    attributes.set_value(attribute, |out| out.extend_from_slice(text));
                    attribute += 1;
                }
                (_, MsgpackValue::Nil | MsgpackValue::Map(_) | MsgpackValue::Array(_)) => return None,
                (RecordPart::Attribute, _) => {
                    let mut number = *values;
                    attributes.set_value(attribute, |out| write_text(&mut number, out)).ok()?;
                    attribute += 1;
                }
                _ => return None,
            }
            *values = ahead;
        }
        (self.pause, self.pause_next) = (0, 0);
        line.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }
}
