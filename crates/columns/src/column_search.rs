//! Searching columns for text, without building lines.
//!
//! A question goes down the tree of columns: which values contain the text, or begin with it, end with it, are it? A
//! dictionary is asked once for its values, whatever the number of rows; numbers are asked only what digits can answer;
//! tables are asked in all [`Ways`] in which the text can lie over their columns.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use memchr::memmem;

use crate::alignments::Alignments;
use crate::automaton::Automaton;
use crate::column_block::ColumnBlock;
use crate::column_tree::{ColumnKind, IndexRange, TableNode, TablePart};
use crate::decimal::NUMBER_BYTES_MAX;
use crate::decoded_column::DecodedColumn;
use crate::fixed_width::{self, PatternByte};
use crate::literal_prefix::LiteralPrefix;
use crate::needle_occurrences::NeedleOccurrences;
use crate::raw_search;
use crate::row_set::{Bitmap, RowSet};
use crate::value_source::{BoundedBuffer, ValueSource};

/// Room for a value that is built to be looked at, in bytes; it grows.
const VALUE_BUFFER_BYTES: usize = 4 << 10;

/// Bytes that a core leaves out at either end of a needle, and bytes that it has at least.
const CORE_MARGIN: usize = 2;
const CORE_BYTES_MIN: usize = 4;

/// The longest needle with a core or as a head, in bytes: what is done for these takes time that grows with the square.
const CORE_NEEDLE_BYTES_MAX: usize = 256;

/// A text that is looked for.
#[derive(Clone, Debug)]
pub struct Needle {
    text: Vec<u8>,
    any_case: bool,
    finder: memmem::Finder<'static>,
    /// A part of the text, or all of it.
    core: Range<usize>,
    /// Whether no two of its places overlap, so that a search that goes on behind each finds all.
    has_non_overlapping_core: bool,
    core_finder: memmem::Finder<'static>,
    /// The bytes that are in it.
    bytes: [u64; 4],
}

impl Needle {
    /// Text without an LF; with `any_case`, ASCII letters match in either case.
    #[must_use]
    pub fn new(text: &[u8], any_case: bool) -> Self {
        let any_case = any_case && text.iter().any(u8::is_ascii_alphabetic);
        let text = if any_case { text.to_ascii_lowercase() } else { text.to_vec() };
        let finder = memmem::Finder::new(&text).into_owned();
        let found_core = needle_core(&text);
        let (core, core_is_found) = (found_core.clone().unwrap_or(0..text.len()), found_core.is_some());
        let core_finder = memmem::Finder::new(text.get(core.clone()).unwrap_or_default()).into_owned();
        let mut bytes = [0; 4];
        let upper = text.iter().filter(|_| any_case).map(u8::to_ascii_uppercase);
        for byte in text.iter().copied().chain(upper) {
            if let Some(word) = bytes.get_mut(byte as usize / 64) {
                *word |= 1 << (byte % 64);
            }
        }
        Self { text, any_case, finder, core, has_non_overlapping_core: core_is_found, core_finder, bytes }
    }

    /// Whether the byte may be a part of what is found.
    pub(crate) fn contains_byte(&self, byte: u8) -> bool {
        self.bytes.get(byte as usize / 64).is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    /// What is looked for; in lower case when any case will do.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether ASCII letters match in either case.
    #[must_use]
    pub fn any_case(&self) -> bool {
        self.any_case
    }

    /// Whether all places of the core are found, and not only some of those that overlap.
    pub(crate) fn has_non_overlapping_core(&self) -> bool {
        self.has_non_overlapping_core
    }

    /// What most parts of the needle have that columns are asked for: where it is not, neither are they.
    pub(crate) fn core(&self) -> Range<usize> {
        self.core.clone()
    }

    /// Where the text is found at or after `from`.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        self.find_with(&self.finder, text, from)
    }

    /// Where its core is found at or after `from`.
    pub(crate) fn find_core(&self, text: &[u8], from: usize) -> Option<usize> {
        self.find_with(&self.core_finder, text, from)
    }

    fn find_with(&self, finder: &memmem::Finder<'_>, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let found = if self.any_case { find_any_case(rest, finder.needle()) } else { finder.find(rest) };
        found.map(|at| from + at)
    }
}

/// A core of a needle: with as much left out as may be, for then it is in more of the parts that columns are asked for.
fn needle_core(text: &[u8]) -> Option<Range<usize>> {
    if text.len() > CORE_NEEDLE_BYTES_MAX {
        return None;
    }
    let mut cores = (0..=CORE_MARGIN).rev().map(|margin| margin..text.len().saturating_sub(margin));
    cores.find(|core| {
        let is_long = core.len() >= CORE_BYTES_MIN || core.len() == text.len();
        is_long && text.get(core.clone()).is_some_and(|core| !overlaps_itself(core))
    })
}

/// Whether a text can begin within itself and go on behind its end.
fn overlaps_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|from| text.get(from..).is_some_and(|end| text.starts_with(end)))
}

/// Looks for text in lower case in any case, by its rarest byte.
fn find_any_case(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let commonness = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b'0'..=b'9' | b' ' | b'.' | b'/' | b'"' | b':' => 2,
        b'j' | b'k' | b'q' | b'v' | b'w' | b'x' | b'y' | b'z' => 0,
        _ => 1,
    };
    let (rare, byte) = wanted.iter().enumerate().min_by_key(|(_, byte)| commonness(byte))?;
    memchr::memchr2_iter(*byte, byte.to_ascii_uppercase(), text).find_map(|at| {
        let start = at.checked_sub(rare)?;
        text.get(start..start + wanted.len())?.eq_ignore_ascii_case(wanted).then_some(start)
    })
}

/// Where in a value a text must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchAnchor {
    Anywhere,
    Start,
    End,
    Whole,
}

/// What a column is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPredicate<'n> {
    pub(crate) needle: &'n Needle,
    /// A part of the needle; all of it when it may be anywhere.
    pub(crate) text: &'n [u8],
    /// Where in the needle it begins.
    pub(crate) needle_offset: usize,
    pub(crate) anchor: MatchAnchor,
    /// What the needle is the head of, where all of it is asked for: then rows may be left out that have no match.
    pub(crate) literal_prefix: Option<LiteralPrefix<'n>>,
}

impl<'n> TextPredicate<'n> {
    /// The needle anywhere.
    fn whole(needle: &'n Needle, head: Option<LiteralPrefix<'n>>) -> Self {
        Self { needle, text: &needle.text, needle_offset: 0, anchor: MatchAnchor::Anywhere, literal_prefix: head }
    }

    /// A part of what is asked for, in one of its columns.
    pub(crate) fn sub_predicate(&self, range: Range<usize>, place: MatchAnchor) -> Self {
        let from = self.needle_offset + range.start;
        let head = self.literal_prefix.filter(|_| place == MatchAnchor::Anywhere);
        Self {
            text: self.text.get(range).unwrap_or_default(),
            needle_offset: from,
            anchor: place,
            literal_prefix: head,
            ..*self
        }
    }

    /// Whether the core of the needle is in the text, and its places are enough to find it.
    pub(crate) fn covers_core(&self) -> bool {
        let core = self.needle.core();
        let has = self.needle_offset <= core.start && core.end <= self.needle_offset + self.text.len();
        has && (self.anchor == MatchAnchor::Anywhere || self.needle.has_non_overlapping_core)
    }

    /// The byte that the text begins with, in both its cases; twice the same when there is but one.
    pub(crate) fn first_byte_cases(&self) -> (u8, u8) {
        let first = self.text.first().copied().unwrap_or_default();
        (first, if self.needle.any_case { first.to_ascii_uppercase() } else { first })
    }

    /// Whether two texts are the same as far as it matters.
    #[inline]
    pub(crate) fn texts_equal(&self, a: &[u8], b: &[u8]) -> bool {
        if self.needle.any_case {
            return a.eq_ignore_ascii_case(b);
        }
        // Most differ from the first byte on, which takes less time to see than to call for a comparison.
        a.first() == b.first() && a == b
    }

    /// Whether a value is what is asked for.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self.anchor {
            MatchAnchor::Whole => self.texts_equal(value, self.text),
            MatchAnchor::Start => value.get(..self.text.len()).is_some_and(|start| self.texts_equal(start, self.text)),
            MatchAnchor::End => {
                let end = value.len().checked_sub(self.text.len()).and_then(|at| value.get(at..));
                end.is_some_and(|end| self.texts_equal(end, self.text))
            }
            MatchAnchor::Anywhere => value.len() >= self.text.len() && self.needle.find(value, 0).is_some(),
        }
    }
}

impl ColumnBlock {
    /// The lines that contain the text; `None` when the block is damaged.
    #[must_use]
    pub fn find(&self, needle: &Needle) -> Option<RowSet> {
        self.find_rows(TextPredicate::whole(needle, None))
    }

    /// The lines that contain a text that every match begins with, but for most of those without a match: `automaton` is
    /// one that is begun at the text. Where that may have any case, it must not tell the cases apart. `None` when the
    /// block is damaged.
    #[must_use]
    pub fn find_literal_prefix(&self, needle: &Needle, automaton: &Automaton) -> Option<RowSet> {
        let head = (needle.text.len() <= CORE_NEEDLE_BYTES_MAX).then(|| LiteralPrefix::new(needle, automaton));
        self.find_rows(TextPredicate::whole(needle, head))
    }

    fn find_rows(&self, ask: TextPredicate<'_>) -> Option<RowSet> {
        if ask.text.is_empty() {
            return Some(RowSet::All);
        }
        let search = ColumnSearch { block: self, occurrences: NeedleOccurrences::new(self, ask.needle) };
        search.evaluate(self.root(), ask)
    }
}

/// A search for one text in one block.
pub(crate) struct ColumnSearch<'b> {
    pub(crate) block: &'b ColumnBlock,
    pub(crate) occurrences: NeedleOccurrences<'b>,
}

impl ColumnSearch<'_> {
    /// The rows of a column that are what is asked for.
    pub(crate) fn evaluate(&self, at: usize, ask: TextPredicate<'_>) -> Option<RowSet> {
        let node = self.block.node(at)?;
        if !self.may_match(at, &ask) {
            return Some(RowSet::None);
        }
        Some(match node.kind {
            ColumnKind::Constant(list) if self.literal_matches(list, &ask) => RowSet::All,
            ColumnKind::Constant(_) => RowSet::None,
            ColumnKind::Copy(of) => self.evaluate(of, ask)?,
            ColumnKind::Raw(payload) if ask.covers_core() => {
                self.occurrences.matching_rows(at, payload, node.rows, &ask)?
            }
            ColumnKind::Raw(payload) => raw_search::find_anchored(self.block.bytes(payload)?, node.rows, &ask),
            ColumnKind::Integers(_) if ask.anchor == MatchAnchor::Whole => {
                let DecodedColumn::Numbers(numbers) = self.block.decoded_column(at)? else { return None };
                let wanted = fixed_width::parse_integer(ask.text);
                RowSet::from_fn(node.rows, |row| wanted.is_some() && numbers.get(row).copied() == wanted)
            }
            ColumnKind::Integers(_) | ColumnKind::Fixed { .. } => {
                self.evaluate_by_row(node.rows, &ValueSource::of(self.block, at)?, &ask)?
            }
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                match self.evaluate(values, ask)? {
                    RowSet::Some(bits) => {
                        let ids = self.block.codes_of(at)?;
                        RowSet::from_fn(node.rows, |row| ids.get(row).is_some_and(|id| bits.contains(id)))
                    }
                    all_or_none => all_or_none,
                }
            }
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                self.evaluate_table(self.block.tree.tables(tables).first()?, ask)?
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                self.evaluate_tables(at, node.rows, outliers, self.block.tree.tables(tables), ask)?
            }
        })
    }

    /// Whether a literal is what is asked for.
    pub(crate) fn literal_matches(&self, literal: IndexRange, ask: &TextPredicate<'_>) -> bool {
        match ask.anchor {
            MatchAnchor::Anywhere => self.occurrences.is_in_literal(literal),
            _ => ask.matches(self.block.literal(literal)),
        }
    }

    fn evaluate_tables(
        &self,
        at: usize,
        rows: usize,
        rest: Option<usize>,
        tables: &[TableNode],
        ask: TextPredicate<'_>,
    ) -> Option<RowSet> {
        let (mut found, mut all) = (Bitmap::new(rows), true);
        let rest = rest.iter().map(|rest| self.evaluate(*rest, ask));
        let tables = tables.iter().map(|table| self.evaluate_table(table, ask));
        for (number, hits) in rest.chain(tables).enumerate() {
            let hits = hits?;
            all &= hits == RowSet::All;
            if hits == RowSet::None {
                continue;
            }
            let DecodedColumn::TableRows { table_values: values, .. } = self.block.decoded_column(at)? else {
                return None;
            };
            let values = values.get(number)?;
            match hits {
                RowSet::None => {}
                RowSet::All => values.iter().for_each(|value| found.set(*value as usize)),
                RowSet::Some(bits) => {
                    for row in bits.iter() {
                        found.set(*values.get(row)? as usize);
                    }
                }
            }
        }
        Some(if all { RowSet::All } else { RowSet::from_bitmap(found) })
    }

    fn evaluate_table(&self, table: &TableNode, ask: TextPredicate<'_>) -> Option<RowSet> {
        match Alignments::search(self, table, ask)? {
            Some(rows) => Some(rows),
            // Too many ways: the rows themselves are looked at.
            None => self.evaluate_by_row(table.rows, &ValueSource::of_table(self.block, table)?, &ask),
        }
    }

    /// Builds each value and looks at it.
    fn evaluate_by_row(&self, rows: usize, source: &ValueSource<'_>, ask: &TextPredicate<'_>) -> Option<RowSet> {
        let mut out = BoundedBuffer::new(VALUE_BUFFER_BYTES);
        let mut whole = true;
        let found = RowSet::from_fn(rows, |row| {
            out.truncate(0);
            whole &= out.push_growing(self.block.text_len(), |out| source.push(row, out)).is_some();
            ask.matches(out.text())
        });
        whole.then_some(found)
    }

    /// Whether a value of the column may be what is asked for, as far as that is known without unpacking it.
    pub(crate) fn may_match(&self, at: usize, ask: &TextPredicate<'_>) -> bool {
        match self.block.node(at).map(|node| node.kind) {
            Some(ColumnKind::Integers(_)) => {
                let digits = ask.text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
                digits && ask.text.len() <= NUMBER_BYTES_MAX
            }
            Some(ColumnKind::Fixed { pattern, .. }) => pattern_may_match(self.block.tree.pattern(pattern), ask),
            Some(ColumnKind::Copy(of)) => self.may_match(of, ask),
            Some(ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. }) => {
                self.may_match(values, ask)
            }
            _ => true,
        }
    }

    /// The text of a part that is the same in all rows.
    pub(crate) fn constant_literal(&self, part: &TablePart) -> Option<IndexRange> {
        match part {
            TablePart::Literal(list) => Some(*list),
            TablePart::Column(node) => match self.block.node(*node)?.kind {
                ColumnKind::Constant(list) => Some(list),
                _ => None,
            },
        }
    }
}

/// Whether values of these places may be what is asked for.
fn pattern_may_match(places: &[PatternByte], ask: &TextPredicate<'_>) -> bool {
    let fits_place = |(place, byte): (&PatternByte, &u8)| match place {
        PatternByte::Literal(same) => ask.texts_equal(&[*same], &[*byte]),
        PatternByte::Digit => byte.is_ascii_digit(),
        PatternByte::LowerHex => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        PatternByte::UpperHex => {
            let upper = if ask.needle.any_case { byte.to_ascii_uppercase() } else { *byte };
            upper.is_ascii_digit() || (b'A'..=b'F').contains(&upper)
        }
    };
    let fits = |offset: usize| {
        let window = places.get(offset..offset + ask.text.len());
        window.is_some_and(|window| window.iter().zip(ask.text).all(fits_place))
    };
    let Some(last) = places.len().checked_sub(ask.text.len()) else { return false };
    match ask.anchor {
        MatchAnchor::Whole => last == 0 && fits(0),
        MatchAnchor::Start => fits(0),
        MatchAnchor::End => fits(last),
        MatchAnchor::Anywhere => (0..=last).any(fits),
    }
}
