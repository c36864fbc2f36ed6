//! Matching records in memory, from the scan to the reader.
//!
//! A scan writes them to a [`MatchBuffer`]: the text, each record followed by an LF, into *slabs*, and their positions
//! into *pages*. Slabs and pages have a fixed capacity, because growing vectors made the allocator hold three times the
//! memory. A sealed buffer passes records on in place, one at a time or adjacent ones together. It frees each page and
//! slab after its last record. A sender may share a slab instead of copying it.

use std::collections::VecDeque;
use std::ops::Range;

use bucksaw_record::{Id, Labels, RecordView, RowAttributes};
use bucksaw_segment::Rows;
use bytes::Bytes;

use crate::buffer_pool::{BufferPool, PooledBuffer};
use crate::result_budget::ResultReservation;

/// Maximum bytes of a slab, except for a longer record, which has a slab of its own.
const SLAB_BYTES_MAX: usize = 256 << 10;

/// Bytes of the first slab; each further one is four times as large. Many scans find little.
const SLAB_BYTES_MIN: usize = 4 << 10;

/// Maximum entries of a page.
const PAGE_ENTRIES_MAX: usize = 4_096;

/// Entries of the first page; each further one has four times as many.
const PAGE_ENTRIES_MIN: usize = 64;

/// Pooled slabs and pages of full size each, 15 MB in total.
const POOLED_BUFFERS_MAX: usize = 32;

/// Slabs and pages for reuse. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MatchBufferPools {
    slabs: BufferPool<u8>,
    pages: BufferPool<MatchEntry>,
}

impl Default for MatchBufferPools {
    fn default() -> Self {
        Self {
            slabs: BufferPool::new(SLAB_BYTES_MAX, POOLED_BUFFERS_MAX),
            pages: BufferPool::new(PAGE_ENTRIES_MAX, POOLED_BUFFERS_MAX),
        }
    }
}

/// Matches of one unit during its scan.
#[derive(Debug, Default)]
pub(crate) struct MatchBuffer {
    pools: MatchBufferPools,
    slabs: Vec<Vec<u8>>,
    streams: Vec<Labels>,
    pages: Vec<Vec<MatchEntry>>,
    /// By the number of a record, in the order of pushing.
    attributes: RowAttributes,
    count: usize,
    /// Records pushed; fewer are kept where sorting dropped equal ones.
    pushed: u32,
    /// Memory of the slabs and pages.
    bytes: usize,
    /// Whether the records come from the store, not the queue.
    is_stored: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchEntry {
    pub(crate) id: Id,
    nanos: u32,
    stream: u32,
    /// The number of the record in `attributes`.
    number: u32,
    slab: u32,
    start: u32,
    length: u32,
    flags: u8,
}

impl MatchBuffer {
    pub(crate) fn new(is_stored: bool, pools: MatchBufferPools) -> Self {
        let (slabs, streams, pages) = (Vec::new(), Vec::new(), Vec::new());
        let attributes = RowAttributes::empty();
        Self { pools, slabs, streams, pages, attributes, count: 0, pushed: 0, bytes: 0, is_stored }
    }

    pub(crate) fn stream_index(&mut self, labels: &Labels) -> u32 {
        if self.streams.last() != Some(labels) {
            self.streams.push(labels.clone());
        }
        self.streams.len() as u32 - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn last(&self) -> Option<Id> {
        self.pages.last().and_then(|page| page.last()).map(|entry| entry.id)
    }

    /// Approximate memory of the buffer.
    pub(crate) fn bytes(&self) -> u64 {
        (self.bytes + self.streams.capacity() * size_of::<Labels>() + self.attributes.memory()) as u64
    }

    /// Whether one more record takes no more memory.
    #[inline]
    pub(crate) fn has_room_for(&self, record: RecordView<'_>) -> bool {
        record.shape().is_none() && has_room(&self.slabs, record.text().len() + 1) && has_room(&self.pages, 1)
    }

    /// Memory of the buffer after one more record, at most.
    pub(crate) fn bytes_with(&self, record: RecordView<'_>) -> u64 {
        let length = record.text().len();
        let attributes = record.shape().map_or(0, RowAttributes::row_memory_max);
        let slab = if has_room(&self.slabs, length + 1) { 0 } else { self.next_slab_bytes(length + 1) };
        let page = if has_room(&self.pages, 1) { 0 } else { self.next_page_entries() * size_of::<MatchEntry>() };
        self.bytes() + (slab + page + attributes) as u64
    }

    /// Adds a record: row `row` of `rows`.
    pub(crate) fn push(&mut self, id: Id, stream: u32, rows: &Rows, row: u32, record: RecordView<'_>) {
        let (nanos, flags) = (rows.nanos(row), rows.flags.get(row));
        self.push_record(MatchEntry { id, nanos, stream, number: 0, slab: 0, start: 0, length: 0, flags }, record);
    }

    fn push_record(&mut self, entry: MatchEntry, record: RecordView<'_>) {
        let number = self.pushed;
        self.pushed += 1;
        if let Some(shape) = record.shape() {
            self.attributes.push_row(number, shape);
        }
        let record = record.text();
        if !has_room(&self.slabs, record.len() + 1) {
            let slab_bytes = self.next_slab_bytes(record.len() + 1);
            self.bytes += slab_bytes;
            self.slabs.push(self.pools.slabs.acquire(slab_bytes));
        }
        let slab_number = self.slabs.len() as u32 - 1;
        let Some(slab) = self.slabs.last_mut() else { return };
        let (start, length) = (slab.len() as u32, record.len() as u32);
        slab.extend_from_slice(record);
        slab.push(b'\n');
        if !has_room(&self.pages, 1) {
            let entries = self.next_page_entries();
            self.bytes += entries * size_of::<MatchEntry>();
            self.pages.push(self.pools.pages.acquire(entries));
        }
        if let Some(page) = self.pages.last_mut() {
            page.push(MatchEntry { number, slab: slab_number, start, length, ..entry });
            self.count += 1;
        }
    }

    fn next_slab_bytes(&self, length: usize) -> usize {
        (SLAB_BYTES_MIN << growth_shift(&self.slabs)).min(SLAB_BYTES_MAX).max(length)
    }

    fn next_page_entries(&self) -> usize {
        (PAGE_ENTRIES_MIN << growth_shift(&self.pages)).min(PAGE_ENTRIES_MAX)
    }

    /// Sorts by `key` and drops records with equal ids.
    pub(crate) fn sort(&mut self, key: impl Fn(Id) -> u128) {
        if self.is_strictly_sorted(&key) {
            return;
        }
        // Most often the records are in reverse order.
        self.pages.reverse();
        self.pages.iter_mut().for_each(|page| page.reverse());
        if self.is_strictly_sorted(&key) {
            return;
        }
        let mut all = self.pages.concat();
        all.sort_unstable_by_key(|entry| key(entry.id));
        all.dedup_by_key(|entry| entry.id);
        self.bytes -= self.pages.iter().map(Vec::capacity).sum::<usize>() * size_of::<MatchEntry>();
        self.bytes += all.capacity() * size_of::<MatchEntry>();
        self.count = all.len();
        self.pages = vec![all];
    }

    fn is_strictly_sorted(&self, key: impl Fn(Id) -> u128) -> bool {
        self.pages.iter().flatten().is_sorted_by(|before, after| key(before.id) < key(after.id))
    }

    /// Keeps the first `count` records and the memory that they need. Returns the id of the first one dropped.
    pub(crate) fn truncate(&mut self, count: usize) -> Option<Id> {
        let first_dropped = self.pages.iter().flatten().nth(count)?.id;
        let mut kept = Self::new(self.is_stored, self.pools.clone());
        kept.streams = std::mem::take(&mut self.streams);
        for entry in self.pages.iter().flatten().take(count) {
            kept.push_record(*entry, RecordView::new(self.text(entry), self.attributes.get(entry.number)));
        }
        *self = kept;
        Some(first_dropped)
    }

    fn text(&self, entry: &MatchEntry) -> &[u8] {
        self.slabs.get(entry.slab as usize).and_then(|slab| slab.get(entry.range())).unwrap_or_default()
    }

    /// Ends the buffer and makes it readable. `reservation` is resized to its memory, and is released as records are
    /// read.
    pub(crate) fn seal(mut self, mut reservation: ResultReservation) -> SealedMatches {
        self.streams.shrink_to_fit();
        if let Some(slab) = self.slabs.last_mut() {
            self.bytes -= slab.capacity();
            slab.shrink_to_fit();
            self.bytes += slab.capacity();
        }
        let bytes = self.bytes();
        reservation.resize(bytes);
        let mut left = vec![0; self.slabs.len()];
        for entry in self.pages.iter().flatten() {
            if let Some(left) = left.get_mut(entry.slab as usize) {
                *left += 1;
            }
        }
        let slabs = self.slabs.into_iter().zip(left).map(|(text, left)| {
            let _reservation = reservation.split(text.capacity() as u64);
            let text = Bytes::from_owner(PooledBuffer::new(text, &self.pools.slabs));
            (left > 0).then_some(Slab { text, unread_records: left, _reservation })
        });
        SealedMatches {
            slabs: slabs.collect(),
            streams: self.streams,
            attributes: self.attributes,
            pages: self.pages.into(),
            at: 0,
            bytes,
            reservation,
            is_stored: self.is_stored,
            page_pool: self.pools.pages,
        }
    }
}

fn has_room<T>(pieces: &[Vec<T>], count: usize) -> bool {
    pieces.last().is_some_and(|last| last.capacity() - last.len() >= count)
}

/// The next piece is larger than the first by this power of two.
fn growth_shift<T>(pieces: &[T]) -> usize {
    pieces.len().min(4) * 2
}

impl MatchEntry {
    fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

/// Text of matches.
#[derive(Debug)]
struct Slab {
    text: Bytes,
    unread_records: u32,
    _reservation: ResultReservation,
}

/// Matches of one unit in the order of the answer.
#[derive(Debug)]
pub(crate) struct SealedMatches {
    /// `None` after the last record.
    slabs: Vec<Option<Slab>>,
    streams: Vec<Labels>,
    attributes: RowAttributes,
    /// Pages with records left.
    pages: VecDeque<Vec<MatchEntry>>,
    /// Position of the next entry in the first page.
    at: usize,
    bytes: u64,
    /// For everything except the slabs.
    reservation: ResultReservation,
    is_stored: bool,
    page_pool: BufferPool<MatchEntry>,
}

impl SealedMatches {
    /// Memory that all the matches took.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The records that are left.
    pub(crate) fn len(&self) -> usize {
        self.pages.iter().map(Vec::len).sum::<usize>().saturating_sub(self.at)
    }

    /// The id of the next record.
    pub(crate) fn peek(&self) -> Option<Id> {
        self.peek_entry().map(|entry| entry.id)
    }

    fn peek_entry(&self) -> Option<&MatchEntry> {
        self.pages.front()?.get(self.at)
    }

    /// Passes the next record to `visit` and frees it; `None` at the end.
    pub(crate) fn visit_next<R>(&mut self, visit: impl FnOnce(RecordRef<'_>) -> R) -> Option<R> {
        let entry = *self.peek_entry()?;
        let labels = self.streams.get(entry.stream as usize)?;
        let text = self.slabs.get(entry.slab as usize)?.as_ref()?.text.get(entry.range())?;
        let MatchEntry { id, nanos, flags, .. } = entry;
        let view = RecordView::new(text, self.attributes.get(entry.number));
        let result = visit(RecordRef { id, nanos, flags, labels, view, is_stored: self.is_stored });
        self.release(entry.slab, 1);
        Some(result)
    }

    /// Passes adjacent records to `visit` as one run and frees them: at least one record, then further ones while they
    /// are `wanted` and fit the limits. `None` at the end.
    pub(crate) fn visit_run<R>(
        &mut self,
        records_max: usize,
        bytes_max: usize,
        wanted: impl Fn(Id) -> bool,
        visit: impl FnOnce(RecordRun<'_>) -> R,
    ) -> Option<R> {
        let (first, others) = self.pages.front()?.get(self.at..)?.split_first()?;
        if let Some(shape) = self.attributes.get(first.number) {
            let slab = self.slabs.get(first.slab as usize)?.as_ref()?;
            let view = RecordView::new(slab.text.get(first.range())?, Some(shape));
            let result = visit(RecordRun::line_of(first.id, first.flags, view, &slab.text));
            let slab = first.slab;
            self.release(slab, 1);
            return Some(result);
        }
        let (mut last, mut records) = (first, 1);
        for entry in others.iter().take(records_max.saturating_sub(1)) {
            let is_adjacent = entry.slab == first.slab
                && entry.start == last.start + last.length + 1
                && self.attributes.get(entry.number).is_none();
            let fits = || (entry.start + entry.length - first.start) as usize <= bytes_max;
            if !is_adjacent || (first.flags | entry.flags) != 0 || !fits() || !wanted(entry.id) {
                break;
            }
            (last, records) = (entry, records + 1);
        }
        let slab = self.slabs.get(first.slab as usize)?.as_ref()?;
        let lines = slab.text.get(first.start as usize..(last.start + last.length + 1) as usize)?;
        let (slab_number, flags, buffer) = (first.slab, first.flags, &slab.text);
        let result = visit(RecordRun { first: first.id, last: last.id, flags, records, lines, buffer });
        self.release(slab_number, records);
        Some(result)
    }

    /// Frees the next records, which are in this slab.
    fn release(&mut self, slab: u32, count: usize) {
        if let Some(slot) = self.slabs.get_mut(slab as usize)
            && let Some(slab) = slot
        {
            slab.unread_records = slab.unread_records.saturating_sub(count as u32);
            if slab.unread_records == 0 {
                *slot = None;
            }
        }
        self.at += count;
        if let Some(page) = self.pages.front().filter(|page| self.at == page.len()) {
            drop(self.reservation.split((page.capacity() * size_of::<MatchEntry>()) as u64));
            self.pages.pop_front().into_iter().for_each(|page| self.page_pool.release(page));
            self.at = 0;
        }
    }
}

/// Adjacent records of an answer: any number without flags and attributes, or one with them.
#[derive(Clone, Copy, Debug)]
pub struct RecordRun<'a> {
    /// The first id.
    pub first: Id,
    /// The last id.
    pub last: Id,
    /// Flags of a single record.
    pub flags: u8,
    /// Number of records.
    pub records: usize,
    /// Their lines, each followed by an LF.
    pub lines: &'a [u8],
    /// The buffer that contains `lines`.
    pub buffer: &'a Bytes,
}

impl<'a> RecordRun<'a> {
    /// One record that has attributes: its line, with the LF that separates it from them.
    pub(crate) fn line_of(id: Id, flags: u8, view: RecordView<'a>, buffer: &'a Bytes) -> Self {
        let lines = view.text().get(..=view.line().len()).unwrap_or_default();
        Self { first: id, last: id, flags, records: 1, lines, buffer }
    }

    /// The lines without a copy. They keep the whole buffer in memory, up to some hundred kilobytes.
    pub fn share_lines(&self) -> Bytes {
        self.buffer.slice_ref(self.lines)
    }
}

/// A record of an answer, in place.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Its id, which includes its time.
    pub id: Id,
    /// Nanoseconds within the millisecond, if its source stated them.
    pub nanos: u32,
    /// [`Flags`](bucksaw_record::Flags).
    pub flags: u8,
    /// Its stream.
    pub labels: &'a Labels,
    /// Its line and attributes.
    pub view: RecordView<'a>,
    /// Whether it was found in a store, not in a queue.
    pub is_stored: bool,
}

impl RecordRef<'_> {
    /// A copy.
    pub fn to_owned_record(self) -> OwnedRecord {
        let Self { id, nanos, flags, labels, view, is_stored } = self;
        let mut attributes = RowAttributes::empty();
        if let Some(shape) = view.shape() {
            attributes.push_row(0, shape);
        }
        OwnedRecord { id, nanos, flags, labels: labels.clone(), text: view.text().to_vec(), attributes, is_stored }
    }
}

/// A copied record; as [`RecordRef`].
#[derive(Clone, Debug)]
pub struct OwnedRecord {
    /// Its id.
    pub id: Id,
    /// Nanoseconds within the millisecond.
    pub nanos: u32,
    /// Flags.
    pub flags: u8,
    /// Its stream.
    pub labels: Labels,
    /// The line, and the values of the attributes.
    pub text: Vec<u8>,
    /// The attributes, in row 0.
    pub attributes: RowAttributes,
    /// Whether it was found in a store.
    pub is_stored: bool,
}

impl OwnedRecord {
    /// The record by reference.
    pub fn as_ref(&self) -> RecordRef<'_> {
        let Self { id, nanos, flags, labels, text, attributes, is_stored } = self;
        let view = RecordView::new(text, attributes.get(0));
        RecordRef { id: *id, nanos: *nanos, flags: *flags, labels, view, is_stored: *is_stored }
    }
}

/// Finds the ids of rows, for rows in ascending order.
pub(crate) struct RowIds<'a> {
    rows: &'a Rows,
    run: usize,
}

impl<'a> RowIds<'a> {
    pub(crate) fn new(rows: &'a Rows) -> Self {
        Self { rows, run: 0 }
    }

    pub(crate) fn id_of_row(&mut self, row: u32) -> Id {
        while let Some(run) = self.rows.runs.get(self.run) {
            if row < run.row + run.count {
                return Id::from_bits(run.first_id.bits() + u128::from(row - run.row));
            }
            self.run += 1;
        }
        Id::MAX
    }
}
