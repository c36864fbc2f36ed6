//! The way from lines to bytes, and the choice whether columns are worth it.

use crate::Block;
use crate::cut::Way;
use crate::encode::{Effort, Tree};
use crate::groups::layouts_of_sample;
use crate::values::Values;
use crate::verify::is_of;
use crate::write::Writer;

/// A text that is shorter is not worth columns, in bytes.
const TEXT_BYTES_MIN: usize = 16 << 10;

/// Lines that are shorter on average are left to zstd, in bytes: what is done for each line takes too long for so little.
const LINE_BYTES_MIN: usize = 8;

/// A guess at the bytes of a line, for the room that is made for lines.
const LINE_BYTES_EXPECTED: usize = 64;

/// Lines whose layouts are counted before anything else is done.
const SAMPLE_LINES: usize = 2_048;

/// Sampled lines for each layout, at least: else hardly two lines are alike, and columns cost much and bring nothing.
const LINES_PER_LAYOUT: usize = 3;

/// Pieces of the text that are packed with zstd alone to see what that would bring, and the bytes of each.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 64 << 10;

/// Bytes of lines whose columns are made before those of all, where zstd does not make a [`DENSE`]th part of them. There
/// hardly anything recurs, as in random words or base64, and if these columns bring nothing, more would not either. Where
/// zstd packs well, the columns of more lines are relatively smaller, so that those of few say nothing.
const TRIAL_BYTES: usize = 256 << 10;
const DENSE: usize = 4;

/// Columns may take so many hundredths of what zstd alone takes: to be searched without being unpacked is worth a little.
const WORTH: usize = 102;

/// Packs lines. Keeps its memory from block to block: one for each thread.
#[derive(Debug)]
pub struct Encoder {
    tree: Tree,
}

/// A packed block.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The columns, for [`Block::open`]; `None` where zstd alone does better.
    pub columns: Option<Vec<u8>>,
    /// For [`Filter`](crate::Filter).
    pub filter: Vec<u8>,
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
        Self { tree: Tree::new(Effort::default()) }
    }

    /// An encoder that makes columns of as little as it can, for tests.
    #[cfg(test)]
    pub(crate) fn eager() -> Self {
        Self { tree: Tree::new(Effort { line_rows_min: 2, value_rows_min: 2 }) }
    }

    #[cfg(test)]
    pub(crate) fn filter(&mut self) -> Vec<u8> {
        self.tree.filter.take()
    }

    /// Packs a text of lines, an LF after each; `level` is that of zstd. More than 2 GB are never columns.
    pub fn encode(&mut self, text: &[u8], level: i32) -> Packed {
        let columns = if text.len() < TEXT_BYTES_MIN { None } else { self.columns(text, level) };
        if columns.is_none() {
            self.tree.filter.clear();
            self.tree.filter.add(text);
        }
        Packed { columns, filter: self.tree.filter.take() }
    }

    fn columns(&mut self, text: &[u8], level: i32) -> Option<Vec<u8>> {
        let lines = Lines::of(text)?;
        if text.len() < lines.count() * LINE_BYTES_MIN {
            return None;
        }
        self.tree.borders.look(text);
        let sample = SAMPLE_LINES.min(lines.count());
        let layouts = layouts_of_sample(lines.values(text), Way::Line, &self.tree.borders, SAMPLE_LINES);
        if layouts * LINES_PER_LAYOUT > sample {
            return None;
        }
        if !self.promises(text, &lines, level)? {
            return None;
        }
        let columns = self.whole(text, &lines, level)?;
        let sampled = sampled_zstd_len(text, level)?;
        // Where little recurs, pieces tell well what zstd makes of all of it.
        let clearly =
            columns.len() * 3 < sampled * 2 || (columns.len() * 10 < sampled * 9 && sampled * DENSE > text.len());
        (clearly || columns.len() <= zstd_len(text, level)? * WORTH / 100).then_some(columns)
    }

    /// Whether columns of the whole text may be worth it, by those of some lines.
    fn promises(&mut self, text: &[u8], lines: &Lines, level: i32) -> Option<bool> {
        let start = lines.0.partition_point(|start| (*start as usize) < text.len() / 2).min(lines.count());
        let end = lines.0.partition_point(|start| (*start as usize) < text.len() / 2 + TRIAL_BYTES).min(lines.count());
        let some = Lines(lines.0.get(start..=end)?.to_vec());
        let part = text.get(*some.0.first()? as usize..*some.0.last()? as usize)?;
        let zstd = zstd_len(part, level)?;
        if zstd * DENSE < part.len() {
            return Some(true);
        }
        let split = self.tree.lines(some.values(text));
        let columns = Writer::new(level).and_then(|writer| writer.write(split)).ok()?;
        Some(columns.len() < zstd)
    }

    /// Columns of any text, be they worth it or not.
    #[cfg(test)]
    pub(crate) fn forced(&mut self, text: &[u8], level: i32) -> Vec<u8> {
        self.tree.borders.look(text);
        self.whole(text, &Lines::of(text).unwrap(), level).unwrap()
    }

    /// The columns, if the text comes back from them.
    fn whole(&mut self, text: &[u8], lines: &Lines, level: i32) -> Option<Vec<u8>> {
        let split = self.tree.lines(lines.values(text));
        let columns = Writer::new(level).and_then(|writer| writer.write(split)).ok()?;
        let block = Block::open(columns.clone(), lines.count(), text.len());
        let same = block.is_some_and(|block| is_of(&block, text, lines.starts()));
        debug_assert!(same, "a text does not come back from its columns");
        same.then_some(columns)
    }
}

/// Where the lines of a text start, and at last where it ends.
struct Lines(Vec<u32>);

impl Lines {
    /// The lines of a text; `None` when it does not end with one, or is too long.
    fn of(text: &[u8]) -> Option<Self> {
        // Places in a text are kept in 32 bits, also where an LF was put behind each token.
        u32::try_from(text.len()).ok().filter(|len| *len < u32::MAX / 2)?;
        // To count them first would be one more walk over the text.
        let mut starts = Vec::with_capacity(text.len() / LINE_BYTES_EXPECTED);
        starts.push(0);
        starts.extend(memchr::memchr_iter(b'\n', text).map(|end| end as u32 + 1));
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
}

/// What zstd alone makes of the text.
fn zstd_len(text: &[u8], level: i32) -> Option<usize> {
    zstd::bulk::compress(text, level).ok().map(|packed| packed.len())
}

/// About what zstd alone would make of the text, by pieces from all over it.
fn sampled_zstd_len(text: &[u8], level: i32) -> Option<usize> {
    let step = text.len().div_ceil(SAMPLES).max(1);
    let pieces: Vec<u8> = text.chunks(step).flat_map(|part| part.iter().take(SAMPLE_BYTES)).copied().collect();
    Some((zstd_len(&pieces, level)? as f64 * text.len() as f64 / pieces.len().max(1) as f64) as usize)
}
