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

use crate::budget::Share;
use crate::spares::{Lent, Spares};

/// Bytes of a slab, at most, but for a record that is longer, which has one of its own. The first are smaller: many scans
/// find little.
const SLAB_BYTES_MAX: usize = 256 << 10;

/// Bytes of the first slab. Each further one is four times as large as the one before.
const SLAB_BYTES_MIN: usize = 4 << 10;

/// Hits of a page, at most.
const PAGE_HITS_MAX: usize = 4_096;

/// Hits of the first page. Each further one has four times as many as the one before.
const PAGE_HITS_MIN: usize = 64;

/// Slabs and pages of full size that are kept for the next matches: what is on its way to some readers, 15 MB.
const SPARE_MAX: usize = 32;

/// Slabs and pages that were let go of. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    slabs: Spares<u8>,
    pages: Spares<Hit>,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { slabs: Spares::new(SLAB_BYTES_MAX, SPARE_MAX), pages: Spares::new(PAGE_HITS_MAX, SPARE_MAX) }
    }
}

/// Matches of one unit, as they are found.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    pieces: Pieces,
    slabs: Vec<Vec<u8>>,
    streams: Vec<Labels>,
    pages: Vec<Vec<Hit>>,
    count: usize,
    /// What the slabs and pages take.
    bytes: usize,
    /// Whether they lie on the shelf, not in the queue.
    stored: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) id: Id,
    nanos: u32,
    stream: u32,
    slab: u32,
    start: u32,
    length: u32,
    marks: u8,
}

impl Hits {
    /// None yet, of a unit that lies on the shelf or in the queue.
    pub(crate) fn new(stored: bool, pieces: Pieces) -> Self {
        Self { pieces, slabs: Vec::new(), streams: Vec::new(), pages: Vec::new(), count: 0, bytes: 0, stored }
    }

    pub(crate) fn stream(&mut self, labels: &Labels) -> u32 {
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
        let page = if has_room(&self.pages, 1) { 0 } else { self.next_page_hits() * size_of::<Hit>() };
        self.bytes() + (slab + page) as u64
    }

    /// Adds a record: the `row` of some `rows`.
    pub(crate) fn push(&mut self, id: Id, stream: u32, rows: &Rows, row: u32, record: &[u8]) {
        let (nanos, marks) = (rows.nanos(row), rows.marks.of(row));
        self.push_hit(Hit { id, nanos, stream, slab: 0, start: 0, length: 0, marks }, record);
    }

    fn push_hit(&mut self, hit: Hit, record: &[u8]) {
        if !has_room(&self.slabs, record.len() + 1) {
            let slab_bytes = self.next_slab_bytes(record.len() + 1);
            self.bytes += slab_bytes;
            self.slabs.push(self.pieces.slabs.take(slab_bytes));
        }
        let number = self.slabs.len() as u32 - 1;
        let Some(slab) = self.slabs.last_mut() else { return };
        let (start, length) = (slab.len() as u32, record.len() as u32);
        slab.extend_from_slice(record);
        slab.push(b'\n');
        self.list(Hit { slab: number, start, length, ..hit });
    }

    fn list(&mut self, hit: Hit) {
        if !has_room(&self.pages, 1) {
            let page_hits = self.next_page_hits();
            self.bytes += page_hits * size_of::<Hit>();
            self.pages.push(self.pieces.pages.take(page_hits));
        }
        if let Some(page) = self.pages.last_mut() {
            page.push(hit);
            self.count += 1;
        }
    }

    fn next_slab_bytes(&self, length: usize) -> usize {
        (SLAB_BYTES_MIN << steps(&self.slabs)).min(SLAB_BYTES_MAX).max(length)
    }

    fn next_page_hits(&self) -> usize {
        (PAGE_HITS_MIN << steps(&self.pages)).min(PAGE_HITS_MAX)
    }

    /// Sorts by `key` and keeps of equal ids one: they are the same record.
    pub(crate) fn sort(&mut self, key: impl Fn(Id) -> u128) {
        if self.rises(&key) {
            return;
        }
        // Most often it is just the other way round.
        self.pages.reverse();
        self.pages.iter_mut().for_each(|page| page.reverse());
        if self.rises(&key) {
            return;
        }
        let mut all = self.pages.concat();
        all.sort_unstable_by_key(|hit| key(hit.id));
        all.dedup_by_key(|hit| hit.id);
        self.bytes -= self.pages.iter().map(Vec::capacity).sum::<usize>() * size_of::<Hit>();
        self.bytes += all.capacity() * size_of::<Hit>();
        self.count = all.len();
        self.pages = vec![all];
    }

    /// Whether the keys rise from hit to hit.
    fn rises(&self, key: impl Fn(Id) -> u128) -> bool {
        let rise = |before: &Hit, after: &Hit| key(before.id) < key(after.id);
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
        let mut kept = Self::new(self.stored, self.pieces.clone());
        kept.streams = std::mem::take(&mut self.streams);
        for hit in self.pages.iter().flatten().take(count) {
            kept.push_hit(*hit, self.text(hit));
        }
        *self = kept;
        Some(first_gone)
    }

    fn text(&self, hit: &Hit) -> &[u8] {
        self.slabs.get(hit.slab as usize).and_then(|slab| slab.get(hit.range())).unwrap_or_default()
    }

    /// Nothing will be pushed any more. What `share` holds is set to what is needed, and let go of as that is.
    pub(crate) fn seal(mut self, mut share: Share) -> Found {
        self.streams.shrink_to_fit();
        if let Some(slab) = self.slabs.last_mut() {
            self.bytes -= slab.capacity();
            slab.shrink_to_fit();
            self.bytes += slab.capacity();
        }
        let bytes = self.bytes();
        share.set(bytes);
        let mut left = vec![0; self.slabs.len()];
        for hit in self.pages.iter().flatten() {
            if let Some(left) = left.get_mut(hit.slab as usize) {
                *left += 1;
            }
        }
        let slabs = self.slabs.into_iter().zip(left).map(|(text, left)| {
            let _share = share.split(text.capacity() as u64);
            let text = Bytes::from_owner(Lent::new(text, &self.pieces.slabs));
            (left > 0).then_some(Slab { text, left, _share })
        });
        Found {
            slabs: slabs.collect(),
            streams: self.streams,
            pages: self.pages.into(),
            at: 0,
            bytes,
            share,
            stored: self.stored,
            spare_pages: self.pieces.pages,
        }
    }
}

fn has_room<T>(pieces: &[Vec<T>], count: usize) -> bool {
    pieces.last().is_some_and(|last| last.capacity() - last.len() >= count)
}

/// By which power of two the next of these pieces is larger than the first.
fn steps<T>(pieces: &[T]) -> usize {
    pieces.len().min(4) * 2
}

impl Hit {
    fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

/// Text of matches.
#[derive(Debug)]
struct Slab {
    text: Bytes,
    /// How many of its records were not shown.
    left: u32,
    _share: Share,
}

/// Matches of one unit, in the order of the answer.
#[derive(Debug)]
pub(crate) struct Found {
    /// `None` when all of its records were shown.
    slabs: Vec<Option<Slab>>,
    streams: Vec<Labels>,
    /// Those that were not shown to their end.
    pages: VecDeque<Vec<Hit>>,
    /// Which hit of the first page is the next.
    at: usize,
    bytes: u64,
    /// What all but the slabs takes.
    share: Share,
    stored: bool,
    spare_pages: Spares<Hit>,
}

impl Found {
    /// Memory that all the matches took.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The id of the next record.
    pub(crate) fn peek(&self) -> Option<Id> {
        self.next_hit().map(|hit| hit.id)
    }

    fn next_hit(&self) -> Option<&Hit> {
        self.pages.front()?.get(self.at)
    }

    /// Shows the next record, and lets go of it; `None` when there is none.
    pub(crate) fn show<R>(&mut self, see: impl FnOnce(RecordRef<'_>) -> R) -> Option<R> {
        let hit = *self.next_hit()?;
        let labels = self.streams.get(hit.stream as usize)?;
        let text = self.slabs.get(hit.slab as usize)?.as_ref()?.text.get(hit.range())?;
        let seen = see(RecordRef { id: hit.id, nanos: hit.nanos, marks: hit.marks, labels, text, stored: self.stored });
        self.let_go(hit.slab, 1);
        Some(seen)
    }

    /// Shows the next records all at once, as far as they lie one behind the other, are `wanted` and not more than there is
    /// room for, and lets go of them; `None` when there is none. The first is shown in any case.
    pub(crate) fn show_run<R>(
        &mut self,
        records_max: usize,
        bytes_max: usize,
        wanted: impl Fn(Id) -> bool,
        see: impl FnOnce(Run<'_>) -> R,
    ) -> Option<R> {
        let (first, others) = self.pages.front()?.get(self.at..)?.split_first()?;
        let (mut last, mut count) = (first, 1);
        for hit in others.iter().take(records_max.saturating_sub(1)) {
            let goes_on = hit.slab == first.slab && hit.start == last.start + last.length + 1;
            let fits = || (hit.start + hit.length - first.start) as usize <= bytes_max;
            if !goes_on || (first.marks | hit.marks) != 0 || !fits() || !wanted(hit.id) {
                break;
            }
            (last, count) = (hit, count + 1);
        }
        let slab = self.slabs.get(first.slab as usize)?.as_ref()?;
        let lines = slab.text.get(first.start as usize..(last.start + last.length + 1) as usize)?;
        let (text, marks) = (&slab.text, first.marks);
        let seen = see(Run { first: first.id, last: last.id, marks, records: count, lines, text });
        self.let_go(first.slab, count);
        Some(seen)
    }

    /// Lets go of the next records, which lie in this slab.
    fn let_go(&mut self, slab: u32, count: usize) {
        if let Some(place) = self.slabs.get_mut(slab as usize)
            && let Some(slab) = place
        {
            slab.left = slab.left.saturating_sub(count as u32);
            if slab.left == 0 {
                *place = None;
            }
        }
        self.at += count;
        if let Some(page) = self.pages.front().filter(|page| self.at == page.len()) {
            self.share.give_back((page.capacity() * size_of::<Hit>()) as u64);
            self.pages.pop_front().into_iter().for_each(|page| self.spare_pages.give(page));
            self.at = 0;
        }
    }
}

/// Records of an answer that lie one behind the other: as many as there are without marks, or one with marks.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The id of the first.
    pub first: Id,
    /// The id of the last.
    pub last: Id,
    /// The marks of the only one.
    pub marks: u8,
    /// How many there are.
    pub records: usize,
    /// Their bytes, an LF behind each.
    pub lines: &'a [u8],
    /// What these are some of.
    pub(crate) text: &'a Bytes,
}

impl Run<'_> {
    /// The lines, not copied: while this is there, so are some hundred kilobytes around them.
    #[must_use]
    pub fn share(&self) -> Bytes {
        self.text.slice_ref(self.lines)
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
    pub marks: u8,
    /// Its stream.
    pub labels: &'a Labels,
    /// The bytes, without a line end.
    pub text: &'a [u8],
    /// Whether it was found on a shelf, not in a queue.
    pub stored: bool,
}

impl RecordRef<'_> {
    /// The record, to be kept.
    #[must_use]
    pub fn to_record(self) -> Record {
        let Self { id, nanos, marks, labels, text, stored } = self;
        Record { id, nanos, marks, labels: labels.clone(), text: text.to_vec(), stored }
    }
}

/// A record that was kept from an answer; the same as a [`RecordRef`].
#[derive(Clone, Debug)]
pub struct Record {
    /// Its id.
    pub id: Id,
    /// Nanoseconds.
    pub nanos: u32,
    /// Marks.
    pub marks: u8,
    /// Its stream.
    pub labels: Labels,
    /// The bytes.
    pub text: Vec<u8>,
    /// Whether it was found on a shelf.
    pub stored: bool,
}

impl Record {
    /// The same, where it lies.
    #[must_use]
    pub fn as_ref(&self) -> RecordRef<'_> {
        let Self { id, nanos, marks, labels, text, stored } = self;
        RecordRef { id: *id, nanos: *nanos, marks: *marks, labels, text, stored: *stored }
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
