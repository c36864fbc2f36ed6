//! Encodes a text, as columns or with zstd alone, whichever is better.

use crate::decode::column_block::ColumnBlock;
use crate::encode::layout_groups::{VALUE_BYTES_MAX, count_sampled_layouts};
use crate::encode::tokeniser::Granularity;
use crate::encode::tree_encoder::{TableThresholds, TreeEncoder};
use crate::encode::tree_writer::TreeWriter;
use crate::encode::values::{LineClass, Values};
use crate::encode::verify::has_text;
use crate::encode::work_budget::WorkBudget;
use crate::encode::zstd_sample::{self, ZstdSample};
use std::borrow::Cow;
use std::cell::LazyCell;

/// The shortest text that is encoded as columns, in bytes.
const TEXT_BYTES_MIN: usize = 16 << 10;

/// The shortest average line of a text that is encoded as columns, in bytes: shorter lines cost too much each.
const LINE_BYTES_MIN: usize = 12;

/// The line length by which memory for line starts is reserved, in bytes.
const LINE_BYTES_EXPECTED: usize = 64;

/// The sample of lines whose layouts are counted first.
const SAMPLE_LINES: usize = 2_048;

/// Sampled lines per layout, at least: otherwise hardly two lines share a layout, and columns save nothing.
const LINES_PER_LAYOUT: usize = 3;

/// The number of samples in a trial, and the bytes of each. The trial measures the work, and in dense text also the savings. In
/// other text the savings of a sample are meaningless, because the columns of more lines are relatively smaller.
const TRIAL_PIECES: usize = 8;
const TRIAL_BYTES: usize = 16 << 10;
const TRIAL_BYTES_DENSE: usize = 32 << 10;

/// Sampled lines per layout below which a trial that failed is repeated with large samples, and the bytes of each: tables of a few
/// lines take several times the work of larger ones, and save nothing.
const TRIAL_LINES_PER_LAYOUT: usize = 32;
const TRIAL_BYTES_LARGE: usize = 128 << 10;

#[derive(Clone, Copy)]
enum TrialSize {
    Small,
    Large,
}

/// The largest size of the columns of a dense trial, in hundredths of the size by zstd alone.
const TRIAL_PERCENT_MAX: usize = 95;

/// The largest size of columns, in hundredths of the size by zstd alone: searching without unpacking is worth a little space. In
/// dense text zstd may already be larger for its speed.
const COLUMNS_PERCENT_MAX: usize = 102;
const DENSE_COLUMNS_PERCENT_MAX: usize = 100;

/// The largest filter of dense text that zstd packs, in bytes or as a part of the packed text: a filter of random words is large.
const DENSE_FILTER_BYTES: usize = 16 << 10;
const DENSE_FILTER_DIVISOR: usize = 64;

/// Encodes texts of lines. It keeps its memory, half a megabyte, from block to block; use one per thread.
#[derive(Debug)]
pub struct Encoder {
    tree_encoder: LazyCell<TreeEncoder>,
}

/// An encoded text with its filter.
#[derive(Clone, Debug)]
pub struct EncodedText {
    /// The encoded text.
    pub text: TextEncoding,
    /// The bytes of its [`Filter`](crate::Filter).
    pub filter: Vec<u8>,
}

/// An encoded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextEncoding {
    /// Columns, for [`ColumnBlock::open`].
    Columns(Vec<u8>),
    /// A zstd frame, because columns would be larger or take too long.
    Zstd(Vec<u8>),
    /// Neither encoding is smaller than the text.
    Plain,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Creates an encoder.
    pub fn new() -> Self {
        Self { tree_encoder: LazyCell::new(|| TreeEncoder::new(TableThresholds::default())) }
    }

    /// An encoder with the smallest possible tables, for tests.
    #[cfg(test)]
    pub(crate) fn with_smallest_tables() -> Self {
        Self {
            tree_encoder: LazyCell::new(|| TreeEncoder::new(TableThresholds { line_rows_min: 2, value_rows_min: 2 })),
        }
    }

    /// Encodes a text of lines, an LF after each, with a level of zstd. Text of more than 2 GB is never encoded as columns.
    ///
    /// `classes` are the [classes of the lines](LineClass), or empty if all have the same.
    pub fn encode(&mut self, text: &[u8], classes: &[LineClass], level: i32) -> EncodedText {
        let packed = self.choose_encoding(text, classes, level).unwrap_or(TextEncoding::Plain);
        let filter_bytes_max = match &packed {
            TextEncoding::Columns(_) => usize::MAX,
            TextEncoding::Zstd(bytes) => filter_bytes_max(text.len(), bytes.len()),
            TextEncoding::Plain => filter_bytes_max(text.len(), text.len()),
        };
        if !matches!(packed, TextEncoding::Columns(_)) {
            self.tree_encoder.filter.begin(filter_bytes_max);
            self.tree_encoder.filter.add_whole(text);
        }
        self.tree_encoder.filter.read_escapes(text);
        EncodedText { text: packed, filter: self.tree_encoder.filter.finish(filter_bytes_max) }
    }

    fn choose_encoding(&mut self, text: &[u8], classes: &[LineClass], level: i32) -> Option<TextEncoding> {
        let zstd = |level| zstd_sample::compress(text, level).filter(|packed| packed.len() < text.len());
        if text.len() < TEXT_BYTES_MIN {
            return zstd(level).map(TextEncoding::Zstd);
        }
        let sample = ZstdSample::measure(text, level)?;
        let Some(columns) = self.try_columns(text, classes, &sample) else {
            return zstd(sample.level).map(TextEncoding::Zstd);
        };
        // The samples of dense text predict the size of the whole.
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

    /// Encodes a text as [`Self::encode`], but as columns whenever that is possible, however small the text or the gain. So
    /// tests with small blocks store and search columns.
    pub fn encode_always(&mut self, text: &[u8], classes: &[LineClass], level: i32) -> EncodedText {
        self.tree_encoder.boundaries.compute(text);
        let lines = LineOffsets::of(text, classes, usize::MAX);
        let columns = lines.and_then(|lines| self.encode_columns(text, &lines, WorkBudget::unlimited(), level));
        let Some(columns) = columns else { return self.encode(text, classes, level) };
        self.tree_encoder.filter.read_escapes(text);
        EncodedText { text: TextEncoding::Columns(columns), filter: self.tree_encoder.filter.finish(usize::MAX) }
    }

    /// The columns of a text, if they may be worthwhile.
    fn try_columns(&mut self, text: &[u8], classes: &[LineClass], sample: &ZstdSample) -> Option<Vec<u8>> {
        // Values of attributes are short as a rule, and often repeated. The work budget limits their cost.
        let values = classes.iter().filter(|class| **class != 0).count();
        let lines = LineOffsets::of(text, classes, text.len() / LINE_BYTES_MIN + values)?;
        let lines_per_layout = self.sampled_lines_per_layout(text, &lines);
        if lines_per_layout < LINES_PER_LAYOUT {
            return None;
        }
        let mut is_smaller = |size| self.is_trial_smaller(text, &lines, sample, size);
        let is_small_sample_misleading = lines_per_layout < TRIAL_LINES_PER_LAYOUT;
        let is_worth = is_smaller(TrialSize::Small) || (is_small_sample_misleading && is_smaller(TrialSize::Large));
        if !is_worth {
            return None;
        }
        self.tree_encoder.boundaries.compute(text);
        self.encode_columns(text, &lines, WorkBudget::for_text(text.len()), sample.level)
    }

    /// The sampled lines for each of their layouts. Only lines of the first class are sampled: values of attributes share layouts
    /// as a rule, and say nothing about the lines. Without lines of the first class it is the size of a sample.
    fn sampled_lines_per_layout(&mut self, text: &[u8], lines: &LineOffsets) -> usize {
        let is_sampled = |line: &usize| lines.class(*line) == 0;
        let count =
            if lines.classes.is_empty() { lines.count() } else { (0..lines.count()).filter(is_sampled).count() };
        let step = count.div_ceil(SAMPLE_LINES).max(1);
        let (sample, sampled) = copy_lines(text, lines, (0..lines.count()).filter(is_sampled).step_by(step));
        self.tree_encoder.boundaries.compute(&sample);
        let layouts = count_sampled_layouts(
            sampled.values(&sample),
            Granularity::Line,
            &self.tree_encoder.boundaries,
            SAMPLE_LINES,
        );
        count.min(SAMPLE_LINES).checked_div(layouts).unwrap_or(SAMPLE_LINES)
    }

    /// Whether columns of the whole text may be worthwhile, by a trial on some lines.
    fn is_trial_smaller(&mut self, text: &[u8], lines: &LineOffsets, sample: &ZstdSample, size: TrialSize) -> bool {
        let piece = match size {
            TrialSize::Small if sample.is_dense => TRIAL_BYTES_DENSE,
            TrialSize::Small => TRIAL_BYTES,
            TrialSize::Large => TRIAL_BYTES_LARGE,
        };
        let (some, lines) = copy_lines(text, lines, lines.trial_lines(text.len(), piece));
        self.tree_encoder.boundaries.compute(&some);
        let work = match size {
            TrialSize::Small => WorkBudget::for_small_sample(some.len(), text.len()),
            TrialSize::Large => WorkBudget::for_large_sample(some.len(), text.len()),
        };
        let split = self.tree_encoder.encode_lines(lines.values(&some), &lines.classes, work);
        let Some(split) = split else { return false };
        let columns = || TreeWriter::new(sample.level).write(split);
        !sample.is_dense
            || columns()
                .is_ok_and(|columns| columns.len() * 100 < sample.expected_bytes(some.len()) * TRIAL_PERCENT_MAX)
    }

    /// The columns, if they stay within the work budget and the text round-trips.
    fn encode_columns(&mut self, text: &[u8], lines: &LineOffsets, work: WorkBudget, level: i32) -> Option<Vec<u8>> {
        let split = self.tree_encoder.encode_lines(lines.values(text), &lines.classes, work)?;
        let columns = TreeWriter::new(level).write(split).ok()?;
        let block = ColumnBlock::open(columns.clone(), lines.count(), text.len());
        debug_assert!(block.is_some(), "columns that were just written do not open");
        let same = block.is_some_and(|block| has_text(&block, text, lines.starts()));
        same.then_some(columns)
    }
}

/// The largest filter of a text that zstd packs.
fn filter_bytes_max(bytes: usize, packed: usize) -> usize {
    if zstd_sample::is_dense(bytes, packed) {
        DENSE_FILTER_BYTES.max(packed / DENSE_FILTER_DIVISOR)
    } else {
        usize::MAX
    }
}

/// The lines of a text.
struct LineOffsets<'c> {
    /// The start of each line, and the end of the text.
    offsets: Vec<u32>,
    /// The class of each line, or empty if all have the same.
    classes: Cow<'c, [LineClass]>,
}

impl<'c> LineOffsets<'c> {
    /// The lines of a text, `most` at most; `None` when it does not end with one of these, or is too long.
    fn of(text: &[u8], classes: &'c [LineClass], most: usize) -> Option<Self> {
        // Offsets have 32 bits, also in a copy with an LF behind each token.
        u32::try_from(text.len()).ok().filter(|len| *len < u32::MAX / 2)?;
        // Counting the lines first would be another pass over the text.
        let mut starts = Vec::with_capacity(text.len() / LINE_BYTES_EXPECTED);
        starts.push(0);
        starts.extend(memchr::memchr_iter(b'\n', text).map(|end| end as u32 + 1).take(most));
        debug_assert!(classes.is_empty() || classes.len() + 1 == starts.len() || starts.len() > most);
        let classes = Cow::Borrowed(classes);
        (starts.last().is_some_and(|end| *end as usize == text.len())).then_some(Self { offsets: starts, classes })
    }

    fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    fn starts(&self) -> &[u32] {
        &self.offsets[..self.count()]
    }

    fn values<'a>(&'a self, text: &'a [u8]) -> Values<'a> {
        Values::new(text, self.starts(), &self.offsets[1..], 1)
    }

    fn class(&self, line: usize) -> LineClass {
        self.classes.get(line).copied().unwrap_or_default()
    }

    /// The numbers of lines of a sample spread over a text of `bytes` bytes, without lines that would be outliers.
    fn trial_lines(&self, bytes: usize, piece_bytes: usize) -> impl Iterator<Item = usize> {
        let step = bytes / TRIAL_PIECES;
        let piece = move |at: usize| {
            let first = self.starts().partition_point(|start| (*start as usize) < step * at);
            let end = step * at + piece_bytes.min(step / 2);
            let is_cut = move |line: &usize| (self.offsets[line + 1] - self.offsets[*line]) as usize <= VALUE_BYTES_MAX;
            let is_inside = move |line: &usize| (self.offsets[*line] as usize) < end;
            (first..self.count()).take_while(is_inside).filter(is_cut)
        };
        (0..TRIAL_PIECES).flat_map(piece)
    }
}

/// A copy of some lines, so that a trial does not scan the rest of the text.
fn copy_lines(
    text: &[u8],
    lines: &LineOffsets<'_>,
    some: impl Iterator<Item = usize>,
) -> (Vec<u8>, LineOffsets<'static>) {
    let (mut copy, mut offsets, mut classes) = (Vec::new(), vec![0], Vec::new());
    for line in some {
        copy.extend_from_slice(&text[lines.offsets[line] as usize..lines.offsets[line + 1] as usize]);
        offsets.push(copy.len() as u32);
        classes.extend(lines.classes.get(line));
    }
    (copy, LineOffsets { offsets, classes: Cow::Owned(classes) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::tests::text::{lines_of, random};

    #[test]
    fn trial_lines_are_spread_over_the_text() {
        let mut next = random();
        let long = "x".repeat(VALUE_BYTES_MAX + 1) + "\n";
        let mut text = lines_of(4 << 20, || format!("{} {}\n", next(1 << 31), "y".repeat(next(99) as usize)));
        text.splice(0..0, long.into_bytes());
        let lines = LineOffsets::of(&text, &[], usize::MAX).unwrap();
        let (some, few) = copy_lines(&text, &lines, lines.trial_lines(text.len(), TRIAL_BYTES));
        assert!(some.len().abs_diff(TRIAL_PIECES * TRIAL_BYTES) < TRIAL_PIECES * 200 + TRIAL_BYTES, "{}", some.len());
        assert_eq!(few.starts(), LineOffsets::of(&some, &[], usize::MAX).unwrap().starts());
        let all: HashSet<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        assert!(some.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() < 200 && all.contains(line)));
        let (whole, same) = copy_lines(&text, &lines, 0..lines.count());
        assert!(whole == text && same.starts() == lines.starts());
    }

    /// In a sample of 256 kB, the tables of 600 layouts are too small to say anything.
    #[test]
    fn text_of_many_layouts_is_tried_with_more_lines() {
        let mut next = random();
        let gaps = [" ", ";", "(", ")", "{", "|", " [", ", ", "] "];
        let layouts: Vec<Vec<&str>> = (0..600).map(|_| (0..10).map(|_| gaps[next(9) as usize]).collect()).collect();
        let text = lines_of(8 << 20, || {
            let gaps = &layouts[next(600) as usize];
            gaps.iter().map(|gap| format!("{}{gap}", 300 + next(300))).collect::<String>() + "\n"
        });
        let mut encoder = Encoder::new();
        let lines = LineOffsets::of(&text, &[], usize::MAX).unwrap();
        let sample = ZstdSample::measure(&text, 3).unwrap();
        let mut is_smaller = |size| encoder.is_trial_smaller(&text, &lines, &sample, size);
        assert_eq!([TrialSize::Small, TrialSize::Large].map(&mut is_smaller), [false, true]);
        let TextEncoding::Columns(columns) = encoder.encode(&text, &[], 3).text else { panic!("no columns") };
        assert!(columns.len() * 10 < sample.expected_bytes(text.len()) * 9, "{}", columns.len());
    }
}
