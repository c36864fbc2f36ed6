//! Values of a column with the text that follows all of them, so that one copy puts both.
//!
//! Half of what a line is put together from are the literals between its columns.
#![deny(clippy::indexing_slicing)]

use crate::decode::column_block::{ColumnBlock, PADDING_BYTES};
use crate::decode::column_tree::{ColumnKind, IndexRange};
use crate::decode::decoded_column::{DecodedColumn, TextsRef};
use crate::decode::fixed_width_format::{FixedWidthFormatter, FixedWidthTemplate};

/// Dictionaries with more values are not joined with what follows: these lie in the nearest cache as they are, and would not
/// joined.
const SUFFIXED_VALUES_MAX: usize = 256;

/// So many values for each of the dictionary make it worth to join all of it.
const USES_PER_VALUE_MIN: usize = 4;

/// A short text that follows all values of a column.
#[derive(Clone, Copy)]
pub(crate) struct LiteralSuffix<'b> {
    /// With what lies behind it.
    text: &'b [u8; PADDING_BYTES],
    len: u32,
}

impl Default for LiteralSuffix<'_> {
    fn default() -> Self {
        Self { text: &[0; PADDING_BYTES], len: 0 }
    }
}

impl<'b> LiteralSuffix<'b> {
    /// A literal, if it is short.
    pub(crate) fn of(block: &'b ColumnBlock, literal: IndexRange) -> Option<Self> {
        let (start, end) = literal.bounds();
        let text = block.padded_literals_from(start)?.first_chunk()?;
        (end - start <= PADDING_BYTES).then_some(Self { text, len: (end - start) as u32 })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    fn bytes(self) -> &'b [u8] {
        self.text.get(..self.len as usize).unwrap_or_default()
    }

    /// Puts it at a place, and moves that behind it.
    #[inline]
    pub(crate) fn append_to(self, text: &mut [u8], place: &mut u32) -> Option<()> {
        let to: &mut [u8; PADDING_BYTES] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
        *to = *self.text;
        *place = place.wrapping_add(self.len);
        Some(())
    }
}

/// A value and the text behind it, and the bytes of both.
pub(crate) type SuffixedValue = ([u8; PADDING_BYTES], u32);

/// The values of a column with the same text behind each: one copy for both.
pub(crate) enum SuffixedColumn<'b> {
    /// Not yet: so many values were put.
    Counting(usize),
    /// Of a dictionary, with their bytes.
    Texts(Vec<SuffixedValue>),
    /// What is left of the text does not fit behind the values.
    Formatted(Box<FixedWidthFormatter<'b>>, LiteralSuffix<'b>),
    /// There are too many, or they are too long.
    Disabled,
}

impl Default for SuffixedColumn<'_> {
    fn default() -> Self {
        Self::Counting(0)
    }
}

impl<'b> SuffixedColumn<'b> {
    /// The `count` values of a dictionary with a suffix, of which `uses` more are about to be written. `None` if writing the
    /// suffix separately is cheaper; `values` returns the values.
    pub(crate) fn suffixed_values(
        &mut self,
        count: usize,
        values: impl FnOnce() -> Option<TextsRef<'b>>,
        uses: usize,
        suffix: LiteralSuffix<'b>,
    ) -> Option<Option<&[SuffixedValue]>> {
        if let Self::Counting(uses_before) = self {
            *uses_before += uses;
            if count > SUFFIXED_VALUES_MAX {
                *self = Self::Disabled;
            } else if *uses_before >= count * USES_PER_VALUE_MIN {
                let values = values()?;
                let texts = (0..count).map(|code| append_suffix(values.get(code)?, suffix.bytes()));
                *self = texts.collect::<Option<Vec<_>>>().map_or(Self::Disabled, Self::Texts);
            }
        }
        Some(match self {
            Self::Texts(texts) => Some(texts),
            _ => None,
        })
    }

    /// What writes values of the column `at`, of fixed places, with a text; and what has to be put behind them.
    pub(crate) fn formatter(
        &mut self,
        block: &'b ColumnBlock,
        at: usize,
        tail: LiteralSuffix<'b>,
    ) -> Option<(&mut FixedWidthFormatter<'b>, LiteralSuffix<'b>)> {
        if let Self::Counting(_) = self {
            let (ColumnKind::Fixed { pattern, nibbles, .. }, DecodedColumn::Fixed(numbers)) =
                (block.node(at)?.kind, block.decoded_column(at)?)
            else {
                return None;
            };
            let mut spelling = FixedWidthTemplate::new(block.tree.pattern(pattern), numbers, block.bytes(nibbles)?)?;
            let rest = spelling.append(tail.bytes()).map_or(tail, |()| LiteralSuffix::default());
            *self = Self::Formatted(FixedWidthFormatter::new(spelling).into(), rest);
        }
        match self {
            Self::Formatted(speller, rest) => Some((speller, *rest)),
            _ => None,
        }
    }
}

fn append_suffix(value: &[u8], tail: &[u8]) -> Option<SuffixedValue> {
    let (mut text, len) = ([0; PADDING_BYTES], value.len() + tail.len());
    let (head, behind) = text.get_mut(..len)?.split_at_mut(value.len());
    head.copy_from_slice(value);
    behind.copy_from_slice(tail);
    Some((text, len as u32))
}
