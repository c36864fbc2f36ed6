//! One journal entry while its fields arrive.

use bucksaw_record::{Labels, Millis};

use super::fields::{FieldUse, field_use};
use crate::event::without_line_end;
use crate::stream_labels::StreamLabels;
use crate::syslog::severity_name;
use crate::{AttributeList, Decoded, Event, EventSink};

/// Memory of an entry that is kept for the next one, in bytes. A sender may pause for any time between them.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// Collects fields, and gives an event at the end of the entry.
#[derive(Debug, Default)]
pub(super) struct JournalEntry {
    line: Vec<u8>,
    time: Option<(Millis, u32)>,
    attributes: AttributeList,
    stream: StreamLabels,
    /// Whether a field was seen that is stored.
    is_started: bool,
    /// The address of the entry in the journal of its sender, and that of the entry before.
    cursor: Vec<u8>,
    ended_cursor: Vec<u8>,
}

impl JournalEntry {
    pub(super) fn new(labels: &Labels) -> Self {
        Self { stream: StreamLabels::new(labels), ..Self::default() }
    }

    /// Bytes of the fields of the entry.
    pub(super) fn bytes(&self) -> usize {
        self.line.len() + self.attributes.value_bytes() + self.cursor.len()
    }

    /// The address of the last entry that has ended; empty if it has none.
    pub(super) fn ended_cursor(&self) -> &[u8] {
        &self.ended_cursor
    }

    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = str::from_utf8(value).ok();
        let own_name = || String::from_utf8_lossy(name);
        let list = &mut self.attributes;
        match (field_use(name), text) {
            (FieldUse::Dropped, _) => return,
            (FieldUse::Cursor, _) => {
                self.cursor.clear();
                self.cursor.extend_from_slice(value);
                return;
            }
            (FieldUse::Time, _) => {
                self.time = text.and_then(|text| text.parse().ok()).and_then(micros);
                return;
            }
            (FieldUse::Line, _) => {
                self.line.clear();
                self.line.extend_from_slice(value);
            }
            (FieldUse::Label(label), Some(text)) => self.stream.push(label, text, list),
            (FieldUse::Label(label), None) => list.push(label, value),
            (FieldUse::Severity, _) => {
                let severity = text.filter(|text| text.len() == 1).and_then(|text| severity_name(text.parse().ok()?));
                list.push("severity_text", severity.map_or(value, str::as_bytes));
            }
            (FieldUse::Renamed(attribute), _) => list.push(attribute, value),
            (FieldUse::Attribute, _) => list.push(&own_name(), value),
        }
        self.is_started = true;
    }

    /// Ends the entry. Without effect if it has no field that is stored.
    pub(super) fn end(&mut self, decoded: &mut Decoded, sink: &mut dyn EventSink) {
        if self.is_started {
            let line = without_line_end(&self.line);
            let labels = self.stream.get();
            decoded.push(sink, &labels, &Event { time: self.time, line, attributes: &self.attributes });
        }
        if self.bytes() > KEPT_BYTES_MAX {
            (self.line, self.attributes) = (Vec::new(), AttributeList::default());
        }
        self.line.clear();
        self.time = None;
        self.attributes.clear();
        self.stream.clear();
        self.is_started = false;
        if !self.cursor.is_empty() {
            std::mem::swap(&mut self.cursor, &mut self.ended_cursor);
            self.cursor.clear();
        }
    }
}

fn micros(micros: u64) -> Option<(Millis, u32)> {
    let millis = Millis(micros / 1_000);
    (millis <= Millis::MAX).then_some((millis, (micros % 1_000) as u32 * 1_000))
}
