//! Where a text stands in the frames of a block: each is searched once, whole, before its columns are asked.
//!
//! ```text
//!   needle       "login":"a
//!   its core       ogin":          columns are asked for all of the needle, or for the parts of it that are left
//!   asked        "login":"a        when literals before them have its beginning: all of these have the core
//!                 login":"a
//! ```
//!
//! A block has thousands of columns, most of them with a few values. To search each for itself takes longer than to
//! search the frame that they share: there a text that is nowhere costs as much as reading the bytes once, and a column
//! is told from two places in a list.
#![deny(clippy::indexing_slicing)]

use std::cell::OnceCell;

use memchr::memchr_iter;

use crate::column_block::ColumnBlock;
use crate::column_search::{MatchAnchor, Needle, TextPredicate};
use crate::column_tree::{IndexRange, Payload};
use crate::row_set::{Bitmap, RowSet};

/// Where every such row or more have it, the starts of all rows tell faster than the ends of those in between.
const DENSE_ROWS_PER_OCCURRENCE: usize = 16;

/// Where a needle stands, as far as it was asked.
pub(crate) struct NeedleOccurrences<'b> {
    block: &'b ColumnBlock,
    needle: &'b Needle,
    /// In the text of the literals.
    literals: OnceCell<Vec<u32>>,
    frames: Vec<OnceCell<Option<Vec<u32>>>>,
}

impl<'b> NeedleOccurrences<'b> {
    pub(crate) fn new(block: &'b ColumnBlock, needle: &'b Needle) -> Self {
        let mut frames = Vec::new();
        frames.resize_with(block.frame_count(), OnceCell::new);
        Self { block, needle, literals: OnceCell::new(), frames }
    }

    /// Whether it is in a literal.
    pub(crate) fn is_in_literal(&self, literal: IndexRange) -> bool {
        // Literals stand one behind the other, so that a hit over a border may hide another one.
        let hits = self.literals.get_or_init(|| self.find_all(self.block.literals()));
        let (start, end) = literal.bounds();
        let from = hits.partition_point(|hit| (*hit as usize) < start);
        hits.get(from).is_some_and(|hit| *hit as usize + self.needle.text().len() <= end)
    }

    /// The rows of the raw column `at` that are what is asked for: a text that has the core of the needle.
    pub(crate) fn matching_rows(
        &self,
        at: usize,
        payload: Payload,
        rows: usize,
        ask: &TextPredicate<'_>,
    ) -> Option<RowSet> {
        let of_frame = self.frames.get(payload.frame as usize)?;
        let hits = of_frame.get_or_init(|| Some(self.find_all_cores(self.block.frame_bytes(payload)?)));
        let hits = hits.as_deref()?;
        let start = payload.offset;
        let from = hits.partition_point(|hit| *hit < start);
        let hits = hits.get(from..)?;
        let hits = hits.get(..hits.partition_point(|hit| *hit < start + payload.len))?;
        if hits.is_empty() {
            return Some(RowSet::None);
        }
        let text = self.block.bytes(payload)?;
        let core = self.needle.core();
        let is_all = core.len() == self.needle.text().len();
        let places = hits.iter().map(|hit| hit - start);
        let places = places.filter(|place| is_all || matches_around_core(text, *place as usize, ask));
        // Of heads that are not found because another one overlaps them, nobody knows what follows.
        let head = ask.literal_prefix.filter(|_| self.needle.has_non_overlapping_core());
        let head = head.map(|head| (head, head.state_after(self.needle.text().len())));
        let places = places.filter(|place| {
            let end = *place as usize + self.needle.text().len() - core.start;
            head.is_none_or(|(head, state)| head.may_continue(state, text.get(end..).unwrap_or_default()))
        });
        if hits.len() * DENSE_ROWS_PER_OCCURRENCE > rows {
            return Some(rows_of_offsets(places, self.block.raw_texts(at, payload)?.starts, rows));
        }
        let (mut found, mut row, mut counted) = (Bitmap::new(rows), 0, 0);
        for place in places {
            let place = place as usize;
            row += memchr_iter(b'\n', text.get(counted..place)?).count();
            counted = place;
            found.set(row);
        }
        Some(RowSet::from_bitmap(found))
    }

    /// All places of the needle.
    fn find_all(&self, text: &[u8]) -> Vec<u32> {
        successive_offsets(1, |from| self.needle.find(text, from))
    }

    /// All places of its core; where that is all of it, only some of those that overlap.
    fn find_all_cores(&self, text: &[u8]) -> Vec<u32> {
        successive_offsets(self.needle.core().len(), |from| self.needle.find_core(text, from))
    }
}

/// All that `find` finds from the start on, and from so many bytes behind each place.
fn successive_offsets(step: usize, find: impl Fn(usize) -> Option<usize>) -> Vec<u32> {
    let next = |at: &usize| find(at + step);
    std::iter::successors(find(0), next).map(|at| at as u32).collect()
}

/// Whether what is asked for is around a core of it, in values with an LF after each.
fn matches_around_core(values: &[u8], core: usize, ask: &TextPredicate<'_>) -> bool {
    let Some(start) = core.checked_sub(ask.needle.core().start - ask.needle_offset) else { return false };
    let end = start + ask.text.len();
    let begins = || start == 0 || values.get(start - 1) == Some(&b'\n');
    let ends = || values.get(end) == Some(&b'\n');
    values.get(start..end).is_some_and(|found| ask.texts_equal(found, ask.text))
        && match ask.anchor {
            MatchAnchor::Anywhere => true,
            MatchAnchor::Start => begins(),
            MatchAnchor::End => ends(),
            MatchAnchor::Whole => begins() && ends(),
        }
}

/// The rows of rising places in texts that start at `starts`.
fn rows_of_offsets(places: impl Iterator<Item = u32>, starts: &[u32], rows: usize) -> RowSet {
    let mut found = Bitmap::new(rows);
    let mut ends = starts.iter().skip(1);
    let (mut row, mut end) = (0, ends.next().copied().unwrap_or(u32::MAX));
    for place in places {
        while place >= end {
            row += 1;
            end = ends.next().copied().unwrap_or(u32::MAX);
        }
        found.set(row);
    }
    RowSet::from_bitmap(found)
}
