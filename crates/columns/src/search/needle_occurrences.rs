//! Finds the occurrences of a needle or of its core, once per frame of a block.
//!
//! ```text
//!   needle       "login":"a
//!   core           ogin":          a column is searched for the whole needle, or for the rest of it if a literal
//!   searched     "login":"a        before the column contains its start: all these texts contain the core
//!                 login":"a
//! ```
//!
//! A block has thousands of columns, most of them with a few values. Searching the frame that columns share is faster
//! than searching each column. A text without an occurrence costs one pass over the bytes, and a column finds its
//! occurrences by two offsets.
#![deny(clippy::indexing_slicing)]

use std::cell::{Cell, OnceCell, RefCell};

use bucksaw_search::{Bitmap, Needle, RowSet};
use memchr::memchr_iter;

use crate::decode::column_block::ColumnBlock;
use crate::decode::column_tree::{IndexRange, Payload};
use crate::decode::some_columns::SomeColumns;
use crate::search::edge_matches::{EdgeMatches, NeedlePositions};
use crate::search::text_predicate::{MatchAnchor, TextPredicate};
use crate::search_work;

/// With more than one occurrence per this many rows, the row is found by the starts of all rows. Otherwise the LFs between
/// two occurrences are counted.
const DENSE_ROWS_PER_OCCURRENCE: usize = 16;

/// The largest raw column, in bytes, whose edges are read. A search of a larger one costs less than to read its bytes one by one.
const EDGE_COLUMN_BYTES_MAX: u32 = 2 << 10;

/// Work that is reported while a search runs, at least: some microseconds.
const REPORTED_WORK_MIN: u64 = 64 << 10;

/// The occurrences of a needle, found on first use.
pub(crate) struct NeedleOccurrences<'b> {
    block: &'b ColumnBlock,
    needle: &'b Needle,
    /// Occurrences of the needle in the literals.
    literals: OnceCell<Vec<u32>>,
    /// Occurrences of the core in each frame; `None` if the frame is damaged.
    frames: Vec<OnceCell<Option<Vec<u32>>>>,
    /// The positions of each byte in the needle; `None` if the needle is too long.
    positions: OnceCell<Option<NeedlePositions>>,
    /// The parts of the needle at the edges of the values of each small raw column; `None` if the column is damaged.
    edges: RefCell<SomeColumns<Option<EdgeMatches>>>,
    /// The work that the block does not know of yet.
    work: Cell<u64>,
}

impl<'b> NeedleOccurrences<'b> {
    pub(crate) fn new(block: &'b ColumnBlock, needle: &'b Needle) -> Self {
        Self {
            block,
            needle,
            literals: OnceCell::new(),
            frames: vec![OnceCell::new(); block.frame_count()],
            positions: OnceCell::new(),
            edges: RefCell::new(SomeColumns::new(block.decoded.len())),
            work: Cell::new(0),
        }
    }

    pub(crate) fn add_work(&self, units: u64) {
        self.work.set(self.work.get().saturating_add(units));
    }

    /// Adds the work so far to that of the block.
    pub(crate) fn report_work(&self) {
        self.block.add_work(self.work.take());
    }

    /// Whether there is enough work to report, so that reports cost little.
    pub(crate) fn is_report_due(&self) -> bool {
        self.work.get() >= REPORTED_WORK_MIN
    }

    /// Whether a literal contains the needle.
    pub(crate) fn is_in_literal(&self, literal: IndexRange) -> bool {
        // Literals are adjacent, so an occurrence across two of them may overlap one inside.
        let occurrences = self.literals.get_or_init(|| self.find_all(self.block.literals()));
        let range = literal.indices();
        let from = occurrences.partition_point(|at| (*at as usize) < range.start);
        occurrences.get(from).is_some_and(|at| *at as usize + self.needle.text().len() <= range.end)
    }

    /// The rows of the raw column `at` that pass; the text of the predicate contains the core.
    pub(crate) fn matching_rows(
        &self,
        at: usize,
        payload: Payload,
        rows: usize,
        predicate: &TextPredicate<'_>,
    ) -> Option<RowSet> {
        let start = payload.offset;
        let cores = offsets_in(self.cores(payload)?, payload);
        if cores.is_empty() {
            return Some(RowSet::None);
        }
        self.add_work(cores.len() as u64 * search_work::OCCURRENCE);
        let text = self.block.bytes(payload)?;
        let core = self.needle.core();
        let is_whole = core.len() == self.needle.text().len();
        let offsets = cores.iter().map(|at| at - start);
        let offsets = offsets.filter(|offset| is_whole || matches_around_core(text, *offset as usize, predicate));
        // A prefix that overlaps another one may not have been found, so its continuation is unknown.
        let prefix = predicate.literal_prefix.filter(|_| self.needle.has_non_overlapping_core());
        let prefix = prefix.map(|prefix| (prefix, prefix.state_after(self.needle.text().len())));
        let offsets = offsets.filter(|offset| {
            let end = *offset as usize + self.needle.text().len() - core.start;
            prefix.is_none_or(|(prefix, state)| prefix.may_continue(state, text.get(end..).unwrap_or_default()))
        });
        if cores.len() * DENSE_ROWS_PER_OCCURRENCE > rows {
            self.add_work(rows as u64);
            return Some(rows_of_offsets(offsets, self.block.raw_texts(at, payload)?.starts, rows));
        }
        self.add_work(text.len() as u64);
        let (mut found, mut row, mut counted) = (Bitmap::new(rows), 0, 0);
        for offset in offsets {
            let offset = offset as usize;
            row += memchr_iter(b'\n', text.get(counted..offset)?).count();
            counted = offset;
            found.set(row);
        }
        Some(RowSet::from_bitmap(found))
    }

    /// Whether a value of the raw column `at` may pass, judged by what is found once per frame or column.
    pub(crate) fn may_be_in(&self, at: usize, payload: Payload, predicate: &TextPredicate<'_>) -> bool {
        if predicate.covers_core() {
            return self.cores(payload).is_none_or(|cores| !offsets_in(cores, payload).is_empty());
        }
        self.edges(at, payload).is_none_or(|edges| edges.admit(self.needle, predicate))
    }

    /// The parts of the needle at the edges of the values of the raw column `at`; `None` if it is not small, or damaged, or if the
    /// needle is too long.
    pub(crate) fn edges(&self, at: usize, payload: Payload) -> Option<EdgeMatches> {
        if payload.len > EDGE_COLUMN_BYTES_MAX {
            return None;
        }
        let positions = self.positions.get_or_init(|| NeedlePositions::of(self.needle)).as_ref()?;
        let mut columns = self.edges.borrow_mut();
        let edges = columns.get_or_insert_with(at, || {
            self.add_work(u64::from(payload.len) * search_work::EDGE_BYTE);
            self.block.bytes(payload).map(|values| positions.edges_of(values))
        });
        *edges?
    }

    /// The occurrences of the core in the frame of a column; `None` if the frame is damaged.
    fn cores(&self, payload: Payload) -> Option<&[u32]> {
        let of_frame = self.frames.get(payload.frame as usize)?;
        of_frame.get_or_init(|| Some(self.find_all_cores(self.block.frame_bytes(payload)?))).as_deref()
    }

    /// All occurrences of the needle.
    fn find_all(&self, text: &[u8]) -> Vec<u32> {
        self.count(text, successive_offsets(1, |from| self.needle.find(text, from)))
    }

    /// All occurrences of the core; if it can overlap itself, only those that do not overlap.
    fn find_all_cores(&self, text: &[u8]) -> Vec<u32> {
        let step = self.needle.core().len();
        self.count(text, successive_offsets(step, |from| self.needle.find_core(text, from)))
    }

    /// Adds the work of finding these occurrences.
    fn count(&self, text: &[u8], found: Vec<u32>) -> Vec<u32> {
        let byte = if self.needle.any_case() { search_work::ANY_CASE_BYTE } else { 1 };
        self.add_work(text.len() as u64 * byte + found.len() as u64 * search_work::OCCURRENCE);
        found
    }
}

/// The offsets that `find` returns, each search starting `step` bytes behind the previous offset.
fn successive_offsets(step: usize, find: impl Fn(usize) -> Option<usize>) -> Vec<u32> {
    let next = |at: &usize| find(at + step);
    std::iter::successors(find(0), next).map(|at| at as u32).collect()
}

/// The offsets that lie in a column, of those in its frame.
fn offsets_in(offsets: &[u32], column: Payload) -> &[u32] {
    let from = offsets.partition_point(|at| *at < column.offset);
    let rest = offsets.get(from..).unwrap_or_default();
    rest.get(..rest.partition_point(|at| *at < column.offset + column.len)).unwrap_or_default()
}

/// Whether the text of the predicate lies around a core at offset `core`, in values with an LF after each.
fn matches_around_core(values: &[u8], core: usize, predicate: &TextPredicate<'_>) -> bool {
    let Some(start) = core.checked_sub(predicate.needle.core().start - predicate.needle_offset) else { return false };
    let end = start + predicate.text.len();
    let at_start = || start == 0 || values.get(start - 1) == Some(&b'\n');
    let at_end = || values.get(end) == Some(&b'\n');
    values.get(start..end).is_some_and(|found| predicate.texts_equal(found, predicate.text))
        && match predicate.anchor {
            MatchAnchor::Anywhere => true,
            MatchAnchor::Start => at_start(),
            MatchAnchor::End => at_end(),
            MatchAnchor::Whole => at_start() && at_end(),
        }
}

/// The rows of rising offsets in texts that start at `starts`.
fn rows_of_offsets(offsets: impl Iterator<Item = u32>, starts: &[u32], rows: usize) -> RowSet {
    let mut found = Bitmap::new(rows);
    let mut ends = starts.iter().skip(1);
    let (mut row, mut end) = (0, ends.next().copied().unwrap_or(u32::MAX));
    for offset in offsets {
        while offset >= end {
            row += 1;
            end = ends.next().copied().unwrap_or(u32::MAX);
        }
        found.set(row);
    }
    RowSet::from_bitmap(found)
}
