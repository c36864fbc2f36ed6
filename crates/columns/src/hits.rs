//! Where a text stands in the frames of a block: each is searched once, whole, before its columns are asked.
//!
//! A block has thousands of columns, most of them with a few values. To search each for itself takes longer than to
//! search the frame that they share: there a text that is nowhere costs as much as reading the bytes once, and a column
//! is told from two places in a list.
#![deny(clippy::indexing_slicing)]

use std::cell::OnceCell;

use memchr::memchr_iter;

use crate::bits::{Bits, Rows};
use crate::open::Block;
use crate::search::Needle;
use crate::tree::{List, Payload};

/// Where every such row or more have it, the starts of all rows tell faster than the ends of those in between.
const OFTEN: usize = 16;

/// Where a needle stands, as far as it was asked.
pub(crate) struct Hits<'b> {
    block: &'b Block,
    needle: &'b Needle,
    /// In the text of the literals.
    literals: OnceCell<Vec<u32>>,
    frames: Vec<OnceCell<Option<Vec<u32>>>>,
}

impl<'b> Hits<'b> {
    pub(crate) fn new(block: &'b Block, needle: &'b Needle) -> Self {
        let mut frames = Vec::new();
        frames.resize_with(block.frame_count(), OnceCell::new);
        Self { block, needle, literals: OnceCell::new(), frames }
    }

    /// Whether it is in a literal.
    pub(crate) fn is_in(&self, literal: List) -> bool {
        // Literals stand one behind the other, so that a hit over a border may hide another one.
        let hits = self.literals.get_or_init(|| self.find(self.block.literals(), 1));
        let (start, end) = literal.bounds();
        let from = hits.partition_point(|hit| (*hit as usize) < start);
        hits.get(from).is_some_and(|hit| *hit as usize + self.needle.text().len() <= end)
    }

    /// The rows that it is in of the raw column `at`.
    pub(crate) fn rows(&self, at: usize, payload: Payload, rows: usize) -> Option<Rows> {
        let of_frame = self.frames.get(payload.frame as usize)?;
        let hits = of_frame.get_or_init(|| Some(self.find(self.block.frame_of(payload)?, self.needle.text().len())));
        let hits = hits.as_deref()?;
        let start = payload.offset;
        let from = hits.partition_point(|hit| *hit < start);
        let hits = hits.get(from..)?;
        let hits = hits.get(..hits.partition_point(|hit| *hit < start + payload.len))?;
        if hits.is_empty() {
            return Some(Rows::None);
        }
        if hits.len() * OFTEN > rows {
            let starts = self.block.raw_texts(at, payload)?.starts;
            return Some(rows_of_many(hits.iter().map(|hit| hit - start), starts, rows));
        }
        let text = self.block.bytes(payload)?;
        let (mut found, mut row, mut counted) = (Bits::new(rows), 0, 0);
        for hit in hits {
            let at = (hit - start) as usize;
            row += memchr_iter(b'\n', text.get(counted..at)?).count();
            counted = at;
            found.set(row);
        }
        Some(Rows::tidy(found))
    }

    /// All places; of those that overlap, only some when `step` is more than 1.
    fn find(&self, text: &[u8], step: usize) -> Vec<u32> {
        let mut hits = Vec::new();
        let mut from = 0;
        while let Some(at) = self.needle.find(text, from) {
            hits.push(at as u32);
            from = at + step;
        }
        hits
    }
}

/// The rows of rising places in texts that start at `starts`.
fn rows_of_many(places: impl Iterator<Item = u32>, starts: &[u32], rows: usize) -> Rows {
    let mut found = Bits::new(rows);
    let mut ends = starts.iter().skip(1);
    let (mut row, mut end) = (0, ends.next().copied().unwrap_or(u32::MAX));
    for place in places {
        while place >= end {
            row += 1;
            end = ends.next().copied().unwrap_or(u32::MAX);
        }
        found.set(row);
    }
    Rows::tidy(found)
}
