//! Records with the keys of the record before.
//!
//! The records of a message have the same keys as a rule. What becomes of each value is found once, and further records are read
//! in one pass that compares their encoded keys. A record in which anything differs is read as any other.

use std::ops::Range;

use super::json::write_text;
use super::record::{FLATTEN_DEPTH_MAX, FluentRecord, RecordLabel, is_known_key};
use super::{MsgpackReader, MsgpackValue};
use crate::AttributeList;
use crate::stream_labels::StreamLabels;

/// The keys of a record, and what becomes of each value.
#[derive(Debug, Default)]
pub(super) struct RecordLayout {
    /// What is encoded before each value: its key, and the heads and keys of maps that begin there.
    before: Vec<u8>,
    /// For each value: what is before it in `before`, and what it is. Empty if there is no layout.
    parts: Vec<(Range<usize>, FluentPart)>,
    /// The number of attributes before those of the record.
    attributes_before: usize,
    /// How many records are not learned, because it was in vain before.
    pause: u32,
    pause_next: u32,
}

/// The most records that are not learned in a row: keys that begin to repeat are missed for that long.
const PAUSE_MAX: u32 = 64;

/// What a value of a record is.
#[derive(Clone, Copy, Debug)]
enum FluentPart {
    Line,
    Label(RecordLabel),
    Attribute,
}

impl RecordLayout {
    /// Forgets the keys.
    pub(super) fn clear(&mut self) {
        self.before.clear();
        self.parts.clear();
    }

    /// Whether there are no keys.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether a value is a label.
    pub(super) fn has_labels(&self) -> bool {
        self.parts.iter().any(|(_, part)| matches!(part, FluentPart::Label(_)))
    }

    /// Takes the keys of a record that was read, if it has a line and each other value is one label or attribute. `attributes` has
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
        let is_attribute = |(_, part): &&(Range<usize>, FluentPart)| matches!(part, FluentPart::Attribute);
        if count != Some(self.parts.iter().filter(is_attribute).count()) {
            self.clear();
        }
    }

    fn take_pairs(&mut self, record: &FluentRecord<'_>) -> Option<()> {
        let (count, known, mut values) = record.pairs_with_line()?;
        let mut start = record.start();
        for position in 0..count {
            let key = values.text_or_skip().ok()?;
            let part = match known.label(position) {
                Some(label) => FluentPart::Label(label),
                None if known.is_line(position) => FluentPart::Line,
                // With a string as value it could be preferred to what is the line or a label here.
                None if key.is_some_and(is_known_key) && values.peek().ok()?.text().is_none() => return None,
                None => FluentPart::Attribute,
            };
            self.take_value(part, &mut start, &mut values, FLATTEN_DEPTH_MAX)?;
        }
        Some(())
    }

    /// Takes the next value, and what is before it from `start` on; of a map that is opened each of its values.
    fn take_value<'a>(
        &mut self,
        part: FluentPart,
        start: &mut MsgpackReader<'a>,
        values: &mut MsgpackReader<'a>,
        depth_left: u32,
    ) -> Option<()> {
        match values.peek().ok()? {
            MsgpackValue::Nil | MsgpackValue::Map(0) => return None,
            MsgpackValue::Map(_) if depth_left == 0 => return None,
            MsgpackValue::Map(count) => {
                values.value().ok()?;
                for _ in 0..count {
                    values.skip(1).ok()?;
                    self.take_value(part, start, values, depth_left - 1)?;
                }
            }
            _ => {
                let before = self.before.len();
                self.before.extend_from_slice(start.until(values));
                self.parts.push((before..self.before.len(), part));
                values.skip(1).ok()?;
                *start = *values;
            }
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
        for (before, part) in &self.parts {
            values.strip(self.before.get(before.clone())?)?;
            let mut rest = *values;
            let value = rest.value().ok()?;
            match (part, value.text()) {
                (FluentPart::Line, Some(text)) => line = Some(text),
                (FluentPart::Label(label), Some(text)) => label.try_push(text, stream).then_some(())?,
                (FluentPart::Attribute, Some(text)) => {
                    attributes.set_value(attribute, |out| out.extend_from_slice(text));
                    attribute += 1;
                }
                (FluentPart::Attribute, None) if !matches!(value, MsgpackValue::Nil | MsgpackValue::Map(_)) => {
                    rest = *values;
                    attributes.set_value(attribute, |out| write_text(&mut rest, out)).ok()?;
                    attribute += 1;
                }
                (_, None) => return None,
            }
            *values = rest;
        }
        (self.pause, self.pause_next) = (0, 0);
        line.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }
}
