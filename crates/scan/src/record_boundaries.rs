//! The offsets of the records of a chunk.

use bucksaw_segment::Chunk;
use memchr::{memchr, memchr_iter, memrchr};

use crate::cancel_poll::CancelPoll;

/// The text of a chunk and the offsets of its records.
#[derive(Debug)]
pub(crate) struct RecordBoundaries<'a> {
    /// The records, each followed by an LF.
    pub(crate) text: &'a [u8],
    /// The start of each record, and the end of the text; `None` if each line is a record.
    starts: Option<Vec<usize>>,
}

impl<'a> RecordBoundaries<'a> {
    /// The records of `chunk`, without text behind the last whole record.
    pub(crate) fn of_chunk(chunk: &Chunk<'a>) -> Self {
        let Some(lines) = &chunk.rows.lines else {
            let end = memrchr(b'\n', chunk.text).map_or(0, |last| last + 1);
            return Self { text: chunk.text.get(..end).unwrap_or_default(), starts: None };
        };
        let mut starts = Vec::with_capacity(lines.len() + 1);
        let mut end = 0_usize;
        starts.push(end);
        let mut ends = memchr_iter(b'\n', chunk.text);
        for lines in lines {
            let Some(last) = (*lines as usize).checked_sub(1).and_then(|more| ends.nth(more)) else { break };
            end = last + 1;
            starts.push(end);
        }
        Self { text: chunk.text.get(..end).unwrap_or_default(), starts: Some(starts) }
    }

    /// The lines of a text that ends with an LF.
    pub(crate) fn of_lines(text: &'a [u8]) -> Self {
        Self { text, starts: None }
    }

    /// Whether each line is a record.
    pub(crate) fn is_line_per_record(&self) -> bool {
        self.starts.is_none()
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
    pub(crate) fn record(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.next_start(start).saturating_sub(1)).unwrap_or_default()
    }
}

/// A part of the text that is searched in one go. `end` is the start of a record or the end of the text.
pub(crate) struct ScanWindow<'a> {
    pub(crate) records: &'a RecordBoundaries<'a>,
    pub(crate) end: usize,
    pub(crate) cancel_poll: &'a CancelPoll<'a>,
}

impl ScanWindow<'_> {
    /// The start of the first record at or after `from` that passes, each tested alone.
    pub(crate) fn find_first(&self, mut from: usize, passes: impl Fn(&[u8]) -> bool) -> Option<usize> {
        while from < self.end && !self.cancel_poll.is_cancelled() {
            if passes(self.records.record(from)) {
                return Some(from);
            }
            from = self.records.next_start(from);
        }
        None
    }
}
