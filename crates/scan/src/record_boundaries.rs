//! The offsets of the records of a chunk.

use std::cell::Cell;

use bucksaw_record::{AttributeNames, RecordView, RowAttributes};
use bucksaw_search::CancelPoll;
use bucksaw_segment::Chunk;
use memchr::{memchr, memchr_iter, memrchr};

/// The text of a chunk and the offsets of its records.
#[derive(Debug)]
pub(crate) struct RecordBoundaries<'a> {
    /// The records, each followed by an LF.
    pub(crate) text: &'a [u8],
    /// The start of each record, and the end of the text; `None` if each line is a record.
    starts: Option<Vec<usize>>,
    attributes: &'a RowAttributes,
    /// Whether the line of each record, and the value of each of its attributes, is one line.
    pub(crate) is_line_per_part: bool,
}

static NO_ATTRIBUTES: RowAttributes = RowAttributes::empty();

impl<'a> RecordBoundaries<'a> {
    /// The records of `chunk`, without text behind the last whole record.
    pub(crate) fn of_chunk(chunk: &'a Chunk<'a>) -> Self {
        Self::of_records(chunk.text, chunk.rows.lines.as_deref(), &chunk.rows.attributes)
    }

    /// The records with these numbers of lines, the values of attributes included, without text behind the last whole record;
    /// `None` if each line is a record.
    pub(crate) fn of_records(text: &'a [u8], lines: Option<&[u32]>, attributes: &'a RowAttributes) -> Self {
        let Some(lines) = lines else {
            let end = memrchr(b'\n', text).map_or(0, |last| last + 1);
            return Self::of_lines(text.get(..end).unwrap_or_default());
        };
        let mut starts = Vec::with_capacity(lines.len() + 1);
        let mut ends = memchr_iter(b'\n', text);
        let mut end = 0_usize;
        starts.push(end);
        for lines in lines {
            let Some(last) = (*lines as usize).checked_sub(1).and_then(|before| ends.nth(before)) else { break };
            end = last + 1;
            starts.push(end);
        }
        let is_one_line =
            |(row, lines): (u32, &u32)| *lines as usize == 1 + attributes.get(row).map_or(0, |shape| shape.names.len());
        let is_line_per_part = (0..).zip(lines).all(is_one_line);
        Self { text: text.get(..end).unwrap_or_default(), starts: Some(starts), attributes, is_line_per_part }
    }

    /// The lines of a text that ends with an LF.
    pub(crate) fn of_lines(text: &'a [u8]) -> Self {
        Self { text, starts: None, attributes: &NO_ATTRIBUTES, is_line_per_part: true }
    }

    /// Whether a record has attributes.
    pub(crate) fn has_attributes(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// Whether a record may have an attribute that passes.
    pub(crate) fn has_names(&self, passes: impl Fn(&AttributeNames) -> bool) -> bool {
        self.attributes.lists().iter().any(passes)
    }

    /// The start of the record that contains `at`; the LF behind a record belongs to it. `floor` is the start of a record at or
    /// before `at`.
    pub(crate) fn record_start(&self, floor: usize, at: usize) -> usize {
        match &self.starts {
            None => {
                let before = self.text.get(floor..at).unwrap_or_default();
                memrchr(b'\n', before).map_or(floor, |last| floor + last + 1)
            }
            Some(starts) => {
                let after = starts.partition_point(|start| *start <= at);
                starts.get(after.saturating_sub(1)).copied().unwrap_or(floor)
            }
        }
    }

    /// The first start of a record behind `at`, or the end of the text.
    pub(crate) fn next_start(&self, at: usize) -> usize {
        let found = match &self.starts {
            None => self.text.get(at..).and_then(|rest| memchr(b'\n', rest)).map(|end| at + end + 1),
            Some(starts) => starts.get(starts.partition_point(|start| *start <= at)).copied(),
        };
        found.unwrap_or(self.text.len())
    }

    /// The number of records in `from..to`; both are starts of records.
    pub(crate) fn count_between(&self, from: usize, to: usize) -> usize {
        match &self.starts {
            None => memchr_iter(b'\n', self.text.get(from..to).unwrap_or_default()).count(),
            Some(starts) => {
                let before = |at| starts.partition_point(|start| *start < at);
                before(to).saturating_sub(before(from))
            }
        }
    }

    /// The record that starts at `start`, without the LF behind it.
    pub(crate) fn record(&self, start: usize) -> RecordView<'a> {
        let text = self.text.get(start..self.next_start(start).saturating_sub(1)).unwrap_or_default();
        match &self.starts {
            Some(starts) if self.has_attributes() => {
                let row = starts.partition_point(|other| *other < start) as u32;
                RecordView::new(text, self.attributes.get(row))
            }
            _ => RecordView::line_only(text),
        }
    }
}

/// Whether a text or regex, which may span lines, matches in the line or in the value of an attribute of a record.
pub(crate) fn any_part(record: RecordView<'_>, matches: impl Fn(&[u8]) -> bool) -> bool {
    matches(record.line()) || record.attributes().iter().any(|(_, value)| matches(value))
}

/// A part of the text that is searched in one go. `end` is the start of a record or the end of the text.
pub(crate) struct ScanWindow<'a> {
    pub(crate) records: &'a RecordBoundaries<'a>,
    pub(crate) end: usize,
    pub(crate) cancel_poll: &'a CancelPoll<'a>,
    /// The work so far besides reading the text: see [`SearchCosts`](crate::SearchCosts).
    pub(crate) work: &'a Cell<u64>,
}

/// The work of finding the record of an occurrence.
pub(crate) const OCCURRENCE_WORK: u64 = 250;

/// The work of testing one byte of a record alone.
pub(crate) const TESTED_BYTE_WORK: u64 = 3;

impl ScanWindow<'_> {
    pub(crate) fn add_work(&self, units: u64) {
        self.work.set(self.work.get().saturating_add(units));
    }

    /// The start of the first record at or after `from` that passes, each tested alone.
    pub(crate) fn find_first(&self, mut from: usize, passes: impl Fn(RecordView<'_>) -> bool) -> Option<usize> {
        while from < self.end && !self.cancel_poll.is_cancelled() {
            let record = self.records.record(from);
            self.add_work(OCCURRENCE_WORK + record.text().len() as u64 * TESTED_BYTE_WORK);
            if passes(record) {
                return Some(from);
            }
            from = self.records.next_start(from);
        }
        None
    }
}
