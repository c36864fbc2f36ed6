//! The way from lines to bytes, and the choice whether columns are worth it.

use crate::decode::column_block::ColumnBlock;
use crate::encode::layout_groups::{VALUE_BYTES_MAX, count_sampled_layouts};
use crate::encode::tokeniser::Granularity;
use crate::encode::tree_encoder::{TableThresholds, TreeEncoder};
use crate::encode::tree_writer::Writer;
use crate::encode::values::Values;
use crate::encode::verify::has_text;
use crate::encode::work_budget::WorkBudget;
use crate::encode::zstd_sample::{self, ZstdSample};
use std::cell::LazyCell;

/// A text that is shorter is not worth columns, in bytes.
const TEXT_BYTES_MIN: usize = 16 << 10;

/// Lines that are shorter on average are left to zstd, in bytes: what is done for each line takes too long for so little.
const LINE_BYTES_MIN: usize = 12;

/// A guess at the bytes of a line, for the room that is made for lines.
const LINE_BYTES_EXPECTED: usize = 64;

/// Lines whose layouts are counted before anything else is done.
const SAMPLE_LINES: usize = 2_048;

/// Sampled lines for each layout, at least: else hardly two lines are alike, and columns cost much and bring nothing.
const LINES_PER_LAYOUT: usize = 3;

/// Pieces of the text whose columns are made before those of all, and the bytes of each: to see how much work they are, and,
/// in dense text, what they bring. If they bring nothing there, more would not either. Where zstd packs well, the columns of
/// more lines are relatively smaller, so that those of few say nothing.
const TRIAL_PIECES: usize = 8;
const TRIAL_BYTES: usize = 16 << 10;
const TRIAL_BYTES_DENSE: usize = 32 << 10;

/// The columns of these pieces may take so many hundredths of what zstd alone would make of them.
const TRIAL_PERCENT_MAX: usize = 95;

/// Columns may take so many hundredths of what zstd alone takes: to be searched without being unpacked is worth a little. In
/// dense text zstd may have given a little away for its pace already.
const COLUMNS_PERCENT_MAX: usize = 102;
const DENSE_COLUMNS_PERCENT_MAX: usize = 100;

/// Beside dense text that is left to zstd, the filter may take so many bytes, or such a part of the packed text: it is large,
/// being of random words, and the block should not be.
const DENSE_FILTER_BYTES: usize = 16 << 10;
const DENSE_FILTER_DIVISOR: usize = 64;

/// Packs lines. Keeps its memory from block to block, half a megabyte that it takes with the first: one for each thread.
#[derive(Debug)]
pub struct Encoder {
    tree_encoder: LazyCell<TreeEncoder>,
}

/// A packed block.
#[derive(Clone, Debug)]
pub struct EncodedText {
    /// The text.
    pub text: TextEncoding,
    /// For [`Filter`](crate::Filter).
    pub filter: Vec<u8>,
}

/// What became of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextEncoding {
    /// The columns, for [`Block::open`].
    Columns(Vec<u8>),
    /// A frame of zstd, which does better alone, or would take much less time.
    Zstd(Vec<u8>),
    /// Nothing makes it smaller.
    Plain,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder.
    #[must_use]
    pub fn new() -> Self {
        Self { tree_encoder: LazyCell::new(|| TreeEncoder::new(TableThresholds::default())) }
    }

    /// An encoder that makes columns of as little as it can, for tests.
    #[cfg(test)]
    pub(crate) fn with_smallest_tables() -> Self {
        Self {
            tree_encoder: LazyCell::new(|| TreeEncoder::new(TableThresholds { line_rows_min: 2, value_rows_min: 2 })),
        }
    }

    #[cfg(test)]
    pub(crate) fn filter(&mut self) -> Vec<u8> {
        self.tree_encoder.filter.finish(usize::MAX)
    }

    /// Packs a text of lines, an LF after each; `level` is that of zstd. More than 2 GB are never columns.
    pub fn encode(&mut self, text: &[u8], level: i32) -> EncodedText {
        let packed = self.choose_encoding(text, level).unwrap_or(TextEncoding::Plain);
        if !matches!(packed, TextEncoding::Columns(_)) {
            self.tree_encoder.filter.clear();
            self.tree_encoder.filter.add(text);
        }
        let most = match &packed {
            TextEncoding::Columns(_) => usize::MAX,
            TextEncoding::Zstd(bytes) => filter_bytes_max(text.len(), bytes.len()),
            TextEncoding::Plain => filter_bytes_max(text.len(), text.len()),
        };
        EncodedText { text: packed, filter: self.tree_encoder.filter.finish(most) }
    }

    fn choose_encoding(&mut self, text: &[u8], level: i32) -> Option<TextEncoding> {
        let zstd = |level| zstd_sample::compress(text, level).filter(|packed| packed.len() < text.len());
        if text.len() < TEXT_BYTES_MIN {
            return zstd(level).map(TextEncoding::Zstd);
        }
        let sample = ZstdSample::measure(text, level)?;
        let Some(columns) = self.try_columns(text, &sample) else { return zstd(sample.level).map(TextEncoding::Zstd) };
        // Where little recurs, pieces tell well what zstd makes of all of it.
        let expected = sample.expected_bytes(text.len());
        let clearly = columns.len() * 3 < expected * 2 || (columns.len() * 10 < expected * 9 && sample.is_dense);
        if clearly {
            return Some(TextEncoding::Columns(columns));
        }
        let zstd = zstd(sample.level);
        let worth = if sample.is_dense { DENSE_COLUMNS_PERCENT_MAX } else { COLUMNS_PERCENT_MAX };
        let most = zstd.as_ref().map_or(text.len(), Vec::len) * worth / 100;
        if columns.len() <= most { Some(TextEncoding::Columns(columns)) } else { zstd.map(TextEncoding::Zstd) }
    }

    /// The columns of a text, if they may be worth it.
    fn try_columns(&mut self, text: &[u8], sample: &ZstdSample) -> Option<Vec<u8>> {
        let lines = LineOffsets::of(text, text.len() / LINE_BYTES_MIN)?;
        if !self.has_common_layouts(text, &lines) || !self.is_trial_smaller(text, &lines, sample) {
            return None;
        }
        self.tree_encoder.boundaries.compute(text);
        self.encode_columns(text, &lines, WorkBudget::for_text(text.len()), sample.level)
    }

    /// Whether some of the lines have layouts in common.
    fn has_common_layouts(&mut self, text: &[u8], lines: &LineOffsets) -> bool {
        let step = lines.count().div_ceil(SAMPLE_LINES).max(1);
        let (sample, sampled) = copy_lines(text, lines.line_ranges().step_by(step));
        self.tree_encoder.boundaries.compute(&sample);
        let layouts = count_sampled_layouts(
            sampled.values(&sample),
            Granularity::Line,
            &self.tree_encoder.boundaries,
            SAMPLE_LINES,
        );
        layouts * LINES_PER_LAYOUT <= lines.count().min(SAMPLE_LINES)
    }

    /// Whether columns of the whole text may be worth it, by those of some lines.
    fn is_trial_smaller(&mut self, text: &[u8], lines: &LineOffsets, sample: &ZstdSample) -> bool {
        let piece = if sample.is_dense { TRIAL_BYTES_DENSE } else { TRIAL_BYTES };
        let (some, lines) = copy_lines(text, lines.trial_lines(text.len(), piece));
        self.tree_encoder.boundaries.compute(&some);
        let work = WorkBudget::for_sample(some.len(), text.len());
        let Some(split) = self.tree_encoder.encode_lines(lines.values(&some), work) else { return false };
        let columns = || Writer::new(sample.level).and_then(|writer| writer.write(split));
        !sample.is_dense
            || columns()
                .is_ok_and(|columns| columns.len() * 100 < sample.expected_bytes(some.len()) * TRIAL_PERCENT_MAX)
    }

    /// Columns of any text, be they worth it or not.
    #[cfg(test)]
    pub(crate) fn encode_columns_always(&mut self, text: &[u8], level: i32) -> Vec<u8> {
        self.tree_encoder.boundaries.compute(text);
        self.encode_columns(text, &LineOffsets::of(text, usize::MAX).unwrap(), WorkBudget::unlimited(), level).unwrap()
    }

    /// The columns, if they are no more than this work and the text comes back from them.
    fn encode_columns(&mut self, text: &[u8], lines: &LineOffsets, work: WorkBudget, level: i32) -> Option<Vec<u8>> {
        let split = self.tree_encoder.encode_lines(lines.values(text), work)?;
        let columns = Writer::new(level).and_then(|writer| writer.write(split)).ok()?;
        let block = ColumnBlock::open(columns.clone(), lines.count(), text.len());
        let same = block.is_some_and(|block| has_text(&block, text, lines.starts()));
        debug_assert!(same, "a text does not come back from its columns");
        same.then_some(columns)
    }
}

/// The bytes that the filter may take beside a text that is left to zstd.
fn filter_bytes_max(bytes: usize, packed: usize) -> usize {
    if zstd_sample::is_dense(bytes, packed) {
        DENSE_FILTER_BYTES.max(packed / DENSE_FILTER_DIVISOR)
    } else {
        usize::MAX
    }
}

/// Where the lines of a text start, and at last where it ends.
struct LineOffsets(Vec<u32>);

impl LineOffsets {
    /// The lines of a text, `most` at most; `None` when it does not end with one of these, or is too long.
    fn of(text: &[u8], most: usize) -> Option<Self> {
        // Places in a text are kept in 32 bits, also where an LF was put behind each token.
        u32::try_from(text.len()).ok().filter(|len| *len < u32::MAX / 2)?;
        // To count them first would be one more walk over the text.
        let mut starts = Vec::with_capacity(text.len() / LINE_BYTES_EXPECTED);
        starts.push(0);
        starts.extend(memchr::memchr_iter(b'\n', text).map(|end| end as u32 + 1).take(most));
        (starts.last().is_some_and(|end| *end as usize == text.len())).then_some(Self(starts))
    }

    fn count(&self) -> usize {
        self.0.len() - 1
    }

    fn starts(&self) -> &[u32] {
        &self.0[..self.count()]
    }

    fn values<'a>(&'a self, text: &'a [u8]) -> Values<'a> {
        Values::new(text, self.starts(), &self.0[1..], 1)
    }

    /// Where each line starts, and what comes after it.
    fn line_ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.starts().iter().copied().zip(self.0[1..].iter().copied())
    }

    /// The same of some lines from all over a text of so many bytes: no lines that are kept whole.
    fn trial_lines(&self, bytes: usize, piece_bytes: usize) -> impl Iterator<Item = (u32, u32)> {
        let step = bytes / TRIAL_PIECES;
        let piece = move |at: usize| {
            let first = self.starts().partition_point(|start| (*start as usize) < step * at);
            let end = step * at + piece_bytes.min(step / 2);
            let is_cut = |(start, next): &(u32, u32)| (next - start) as usize <= VALUE_BYTES_MAX;
            self.line_ranges().skip(first).take_while(move |(start, _)| (*start as usize) < end).filter(is_cut)
        };
        (0..TRIAL_PIECES).flat_map(piece)
    }
}

/// Some lines of a text as a text of their own: nothing has to look at the rest for them.
fn copy_lines(text: &[u8], some: impl Iterator<Item = (u32, u32)>) -> (Vec<u8>, LineOffsets) {
    let (mut copy, mut starts) = (Vec::new(), vec![0]);
    for (start, next) in some {
        copy.extend_from_slice(&text[start as usize..next as usize]);
        starts.push(copy.len() as u32);
    }
    (copy, LineOffsets(starts))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::test_text::{lines_of, random};

    #[test]
    fn some_lines_are_from_all_over_the_text() {
        let mut next = random();
        let long = "x".repeat(VALUE_BYTES_MAX + 1) + "\n";
        let mut text = lines_of(4 << 20, || format!("{} {}\n", next(1 << 31), "y".repeat(next(99) as usize)));
        text.splice(0..0, long.into_bytes());
        let lines = LineOffsets::of(&text, usize::MAX).unwrap();
        let (some, few) = copy_lines(&text, lines.trial_lines(text.len(), TRIAL_BYTES));
        assert!(some.len().abs_diff(TRIAL_PIECES * TRIAL_BYTES) < TRIAL_PIECES * 200 + TRIAL_BYTES, "{}", some.len());
        assert_eq!(few.starts(), LineOffsets::of(&some, usize::MAX).unwrap().starts());
        let all: HashSet<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        assert!(some.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() < 200 && all.contains(line)));
        let (whole, same) = copy_lines(&text, lines.line_ranges());
        assert!(whole == text && same.starts() == lines.starts());
    }
}
