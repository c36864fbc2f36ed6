//! Matching records, on their way from the scan to the reader.
//!
//! A scan writes them to [`Hits`]: their bytes, with an LF behind each, into *slabs*, and into *pages* where each lies.
//! Both have a fixed size, so that a match costs no allocation and nothing is ever moved to grow. (One growing vector for
//! each made the allocator keep three times what was held.) Sealed, they are [`Found`], which shows them where they lie,
//! one by one or as many at once as lie one behind the other, and lets go of each page and slab with its last record: a
//! long answer gives its memory back while it is read. Who sends what it was shown may share the slab instead of copying.

use std::collections::VecDeque;
use std::ops::Range;

use bucksaw_record::{Id, Labels};
use bucksaw_segment::Rows;
use bytes::Bytes;

use crate::buffer_pool::{BufferPool, PooledBuffer};
use crate::result_budget::ResultReservation;

/// Bytes of a slab, at most, but for a record that is longer, which has one of its own. The first are smaller: many scans
/// find little.
const SLAB_BYTES_MAX: usize = 256 << 10;

/// Bytes of the first slab. Each further one is four times as large as the one before.
const SLAB_BYTES_MIN: usize = 4 << 10;

/// Hits of a page, at most.
const PAGE_ENTRIES_MAX: usize = 4_096;

/// Hits of the first page. Each further one has four times as many as the one before.
const PAGE_ENTRIES_MIN: usize = 64;

/// Slabs and pages of full size that are kept for the next matches: what is on its way to some readers, 15 MB.
const POOLED_BUFFERS_MAX: usize = 32;

/// Slabs and pages that were let go of. Cheap to clone.
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

/// Matches of one unit, as they are found.
#[derive(Debug, Default)]
pub(crate) struct MatchBuffer {
    pools: MatchBufferPools,
    slabs: Vec<Vec<u8>>,
    streams: Vec<Labels>,
    pages: Vec<Vec<MatchEntry>>,
    count: usize,
    /// What the slabs and pages take.
    bytes: usize,
    /// Whether they lie on the store, not in the queue.
    is_stored: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchEntry {
    pub(crate) id: Id,
    nanos: u32,
    stream: u32,
    slab: u32,
    start: u32,
    length: u32,
    flags: u8,
}

impl MatchBuffer {
    /// None yet, of a unit that lies on the store or in the queue.
    pub(crate) fn new(stored: bool, pieces: MatchBufferPools) -> Self {
        Self {
            pools: pieces,
            slabs: Vec::new(),
            streams: Vec::new(),
            pages: Vec::new(),
            count: 0,
            bytes: 0,
            is_stored: stored,
        }
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

    /// The id at the end of the list.
    pub(crate) fn last(&self) -> Option<Id> {
        self.pages.last().and_then(|page| page.last()).map(|hit| hit.id)
    }

    /// Memory that is taken, about.
    pub(crate) fn bytes(&self) -> u64 {
        (self.bytes + self.streams.capacity() * size_of::<Labels>()) as u64
    }

    /// Whether one more record of this length takes no more memory.
    #[inline]
    pub(crate) fn has_room_for(&self, length: usize) -> bool {
        has_room(&self.slabs, length + 1) && has_room(&self.pages, 1)
    }

    /// Memory that will be taken with one more record of this length.
    pub(crate) fn bytes_with(&self, length: usize) -> u64 {
        let slab = if has_room(&self.slabs, length + 1) { 0 } else { self.next_slab_bytes(length + 1) };
        let page = if has_room(&self.pages, 1) { 0 } else { self.next_page_entries() * size_of::<MatchEntry>() };
        self.bytes() + (slab + page) as u64
    }

    /// Adds a record: the `row` of some `rows`.
    pub(crate) fn push(&mut self, id: Id, stream: u32, rows: &Rows, row: u32, record: &[u8]) {
        let (nanos, marks) = (rows.nanos(row), rows.flags.get(row));
        self.push_record(MatchEntry { id, nanos, stream, slab: 0, start: 0, length: 0, flags: marks }, record);
    }

    fn push_record(&mut self, hit: MatchEntry, record: &[u8]) {
        if !has_room(&self.slabs, record.len() + 1) {
            let slab_bytes = self.next_slab_bytes(record.len() + 1);
            self.bytes += slab_bytes;
            self.slabs.push(self.pools.slabs.acquire(slab_bytes));
        }
        let number = self.slabs.len() as u32 - 1;
        let Some(slab) = self.slabs.last_mut() else { return };
        let (start, length) = (slab.len() as u32, record.len() as u32);
        slab.extend_from_slice(record);
        slab.push(b'\n');
        self.push_entry(MatchEntry { slab: number, start, length, ..hit });
    }

    fn push_entry(&mut self, hit: MatchEntry) {
        if !has_room(&self.pages, 1) {
            let page_hits = self.next_page_entries();
            self.bytes += page_hits * size_of::<MatchEntry>();
            self.pages.push(self.pools.pages.acquire(page_hits));
        }
        if let Some(page) = self.pages.last_mut() {
            page.push(hit);
            self.count += 1;
        }
    }

    fn next_slab_bytes(&self, length: usize) -> usize {
        (SLAB_BYTES_MIN << growth_shift(&self.slabs)).min(SLAB_BYTES_MAX).max(length)
    }

    fn next_page_entries(&self) -> usize {
        (PAGE_ENTRIES_MIN << growth_shift(&self.pages)).min(PAGE_ENTRIES_MAX)
    }

    /// Sorts by `key` and keeps of equal ids one: they are the same record.
    pub(crate) fn sort(&mut self, key: impl Fn(Id) -> u128) {
        if self.is_strictly_sorted(&key) {
            return;
        }
        // Most often it is just the other way round.
        self.pages.reverse();
        self.pages.iter_mut().for_each(|page| page.reverse());
        if self.is_strictly_sorted(&key) {
            return;
        }
        let mut all = self.pages.concat();
        all.sort_unstable_by_key(|hit| key(hit.id));
        all.dedup_by_key(|hit| hit.id);
        self.bytes -= self.pages.iter().map(Vec::capacity).sum::<usize>() * size_of::<MatchEntry>();
        self.bytes += all.capacity() * size_of::<MatchEntry>();
        self.count = all.len();
        self.pages = vec![all];
    }

    /// Whether the keys rise from hit to hit.
    fn is_strictly_sorted(&self, key: impl Fn(Id) -> u128) -> bool {
        let rise = |before: &MatchEntry, after: &MatchEntry| key(before.id) < key(after.id);
        // `is_sorted_by` is about pairs, so that equal ones are none that rise.
        let mut seams = self.pages.windows(2).map(|pair| match pair {
            [before, after] => before.last().zip(after.first()),
            _ => None,
        });
        seams.all(|ends| ends.is_some_and(|(before, after)| rise(before, after)))
            && self.pages.iter().all(|page| page.is_sorted_by(rise))
    }

    /// Keeps the first `count` hits of the list, and of the memory what they need. Returns the id of the first that went.
    pub(crate) fn truncate(&mut self, count: usize) -> Option<Id> {
        let first_gone = self.pages.iter().flatten().nth(count)?.id;
        let mut kept = Self::new(self.is_stored, self.pools.clone());
        kept.streams = std::mem::take(&mut self.streams);
        for hit in self.pages.iter().flatten().take(count) {
            kept.push_record(*hit, self.text(hit));
        }
        *self = kept;
        Some(first_gone)
    }

    fn text(&self, hit: &MatchEntry) -> &[u8] {
        self.slabs.get(hit.slab as usize).and_then(|slab| slab.get(hit.range())).unwrap_or_default()
    }

    /// Nothing will be pushed any more. What `share` holds is set to what is needed, and let go of as that is.
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
        for hit in self.pages.iter().flatten() {
            if let Some(left) = left.get_mut(hit.slab as usize) {
                *left += 1;
            }
        }
        let slabs = self.slabs.into_iter().zip(left).map(|(text, left)| {
            let _share = reservation.split(text.capacity() as u64);
            let text = Bytes::from_owner(PooledBuffer::new(text, &self.pools.slabs));
            (left > 0).then_some(Slab { text, unread_records: left, _reservation: _share })
        });
        SealedMatches {
            slabs: slabs.collect(),
            streams: self.streams,
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

/// By which power of two the next of these pieces is larger than the first.
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
    /// How many of its records were not shown.
    unread_records: u32,
    _reservation: ResultReservation,
}

/// Matches of one unit, in the order of the answer.
#[derive(Debug)]
pub(crate) struct SealedMatches {
    /// `None` when all of its records were shown.
    slabs: Vec<Option<Slab>>,
    streams: Vec<Labels>,
    /// Those that were not shown to their end.
    pages: VecDeque<Vec<MatchEntry>>,
    /// Which hit of the first page is the next.
    at: usize,
    bytes: u64,
    /// What all but the slabs takes.
    reservation: ResultReservation,
    is_stored: bool,
    page_pool: BufferPool<MatchEntry>,
}

impl SealedMatches {
    /// Memory that all the matches took.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The id of the next record.
    pub(crate) fn peek(&self) -> Option<Id> {
        self.peek_entry().map(|hit| hit.id)
    }

    fn peek_entry(&self) -> Option<&MatchEntry> {
        self.pages.front()?.get(self.at)
    }

    /// Shows the next record, and lets go of it; `None` when there is none.
    pub(crate) fn visit_next<R>(&mut self, see: impl FnOnce(RecordRef<'_>) -> R) -> Option<R> {
        let hit = *self.peek_entry()?;
        let labels = self.streams.get(hit.stream as usize)?;
        let text = self.slabs.get(hit.slab as usize)?.as_ref()?.text.get(hit.range())?;
        let seen =
            see(RecordRef { id: hit.id, nanos: hit.nanos, flags: hit.flags, labels, text, is_stored: self.is_stored });
        self.release(hit.slab, 1);
        Some(seen)
    }

    /// Shows the next records all at once, as far as they lie one behind the other, are `wanted` and not more than there is
    /// room for, and lets go of them; `None` when there is none. The first is shown in any case.
    pub(crate) fn visit_run<R>(
        &mut self,
        records_max: usize,
        bytes_max: usize,
        wanted: impl Fn(Id) -> bool,
        see: impl FnOnce(RecordRun<'_>) -> R,
    ) -> Option<R> {
        let (first, others) = self.pages.front()?.get(self.at..)?.split_first()?;
        let (mut last, mut count) = (first, 1);
        for hit in others.iter().take(records_max.saturating_sub(1)) {
            let goes_on = hit.slab == first.slab && hit.start == last.start + last.length + 1;
            let fits = || (hit.start + hit.length - first.start) as usize <= bytes_max;
            if !goes_on || (first.flags | hit.flags) != 0 || !fits() || !wanted(hit.id) {
                break;
            }
            (last, count) = (hit, count + 1);
        }
        let slab = self.slabs.get(first.slab as usize)?.as_ref()?;
        let lines = slab.text.get(first.start as usize..(last.start + last.length + 1) as usize)?;
        let (buffer, marks) = (&slab.text, first.flags);
        let seen = see(RecordRun { first: first.id, last: last.id, flags: marks, records: count, lines, buffer });
        self.release(first.slab, count);
        Some(seen)
    }

    /// Lets go of the next records, which lie in this slab.
    fn release(&mut self, slab: u32, count: usize) {
        if let Some(place) = self.slabs.get_mut(slab as usize)
            && let Some(slab) = place
        {
            slab.unread_records = slab.unread_records.saturating_sub(count as u32);
            if slab.unread_records == 0 {
                *place = None;
            }
        }
        self.at += count;
        if let Some(page) = self.pages.front().filter(|page| self.at == page.len()) {
            self.reservation.shrink((page.capacity() * size_of::<MatchEntry>()) as u64);
            self.pages.pop_front().into_iter().for_each(|page| self.page_pool.release(page));
            self.at = 0;
        }
    }
}

/// Records of an answer that lie one behind the other: as many as there are without marks, or one with marks.
#[derive(Clone, Copy, Debug)]
pub struct RecordRun<'a> {
    /// The id of the first.
    pub first: Id,
    /// The id of the last.
    pub last: Id,
    /// The marks of the only one.
    pub flags: u8,
    /// How many there are.
    pub records: usize,
    /// Their bytes, an LF behind each.
    pub lines: &'a [u8],
    /// The buffer that `lines` is a part of.
    pub buffer: &'a Bytes,
}

impl RecordRun<'_> {
    /// The lines without a copy. They keep the whole buffer, some hundred kilobytes, in memory.
    #[must_use]
    pub fn share_lines(&self) -> Bytes {
        self.buffer.slice_ref(self.lines)
    }
}

/// A record of an answer, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Its id; the time is in it.
    pub id: Id,
    /// Nanoseconds below the millisecond, as far as its source stated them.
    pub nanos: u32,
    /// [`Marks::CUT`](bucksaw_record::Marks::CUT), [`Marks::OPEN`](bucksaw_record::Marks::OPEN).
    pub flags: u8,
    /// Its stream.
    pub labels: &'a Labels,
    /// The bytes, without a line end.
    pub text: &'a [u8],
    /// Whether it was found on a store, not in a queue.
    pub is_stored: bool,
}

impl RecordRef<'_> {
    /// The record, to be kept.
    #[must_use]
    pub fn to_owned_record(self) -> OwnedRecord {
        let Self { id, nanos, flags: marks, labels, text, is_stored: stored } = self;
        OwnedRecord { id, nanos, flags: marks, labels: labels.clone(), text: text.to_vec(), is_stored: stored }
    }
}

/// A record that was kept from an answer; the same as a [`RecordRef`].
#[derive(Clone, Debug)]
pub struct OwnedRecord {
    /// Its id.
    pub id: Id,
    /// Nanoseconds.
    pub nanos: u32,
    /// Marks.
    pub flags: u8,
    /// Its stream.
    pub labels: Labels,
    /// The bytes.
    pub text: Vec<u8>,
    /// Whether it was found on a store.
    pub is_stored: bool,
}

impl OwnedRecord {
    /// The same, where it lies.
    #[must_use]
    pub fn as_ref(&self) -> RecordRef<'_> {
        let Self { id, nanos, flags: marks, labels, text, is_stored: stored } = self;
        RecordRef { id: *id, nanos: *nanos, flags: *marks, labels, text, is_stored: *stored }
    }
}

/// Ids of rows that are asked for in rising order.
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
