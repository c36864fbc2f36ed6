//! Matching records, on their way from the scan to the reader.

use std::ops::Range;
use std::sync::Arc;

use bucksaw_record::{Id, Labels};
use bucksaw_segment::{Chunk, Rows};

/// The matches of one unit: their bytes in one piece, so that a match costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    text: Vec<u8>,
    streams: Vec<Labels>,
    pub(crate) list: Vec<Hit>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) id: Id,
    nanos: u32,
    stream: u32,
    start: usize,
    length: u32,
    marks: u8,
}

impl Hits {
    pub(crate) fn stream(&mut self, labels: &Labels) -> u32 {
        if self.streams.last() != Some(labels) {
            self.streams.push(labels.clone());
        }
        self.streams.len() as u32 - 1
    }

    pub(crate) fn push(&mut self, id: Id, row: u32, stream: u32, chunk: &Chunk<'_>, range: Range<usize>) {
        let record = chunk.text.get(range).unwrap_or_default();
        let (nanos, marks) = (chunk.rows.nanos(row), chunk.rows.marks.of(row));
        let (start, length) = (self.text.len(), record.len() as u32);
        self.list.push(Hit { id, nanos, stream, start, length, marks });
        self.text.extend_from_slice(record);
    }

    /// Memory that the matches take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.list.len() * size_of::<Hit>()
    }

    pub(crate) fn sort(&mut self) {
        if !self.list.is_sorted_by_key(|hit| hit.id) {
            self.list.sort_unstable_by_key(|hit| hit.id);
        }
    }

    /// Gives back the memory that was taken ahead: nothing will be pushed any more, and a slow reader may hold this long.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.list.shrink_to_fit();
    }

    pub(crate) fn record(self: &Arc<Self>, hit: &Hit) -> Record {
        let labels = self.streams.get(hit.stream as usize).cloned().unwrap_or_default();
        let range = hit.start..hit.start + hit.length as usize;
        Record { id: hit.id, nanos: hit.nanos, marks: hit.marks, labels, hits: Arc::clone(self), range }
    }
}

/// A record of an answer.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its id; the time is in it.
    pub id: Id,
    /// Nanoseconds below the millisecond, as far as its source stated them.
    pub nanos: u32,
    /// [`Marks::CUT`](bucksaw_record::Marks::CUT), [`Marks::OPEN`](bucksaw_record::Marks::OPEN).
    pub marks: u8,
    /// Its stream.
    pub labels: Labels,
    hits: Arc<Hits>,
    range: Range<usize>,
}

impl Record {
    /// The bytes, without a line end.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        self.hits.text.get(self.range.clone()).unwrap_or_default()
    }
}

/// Ids of rows that are asked for in rising order.
pub(crate) struct Ids<'a> {
    rows: &'a Rows,
    run: usize,
}

impl<'a> Ids<'a> {
    pub(crate) fn new(rows: &'a Rows) -> Self {
        Self { rows, run: 0 }
    }

    pub(crate) fn of(&mut self, row: u32) -> Id {
        while let Some(run) = self.rows.runs.get(self.run) {
            if row < run.row + run.count {
                return Id::from_bits(run.first.bits() + u128::from(row - run.row));
            }
            self.run += 1;
        }
        Id::MAX
    }
}
