//! Joins the values of a column with the literal that follows them, so that one copy writes both.
//!
//! Half of the parts of a line are literals between its columns.
#![deny(clippy::indexing_slicing)]

use crate::decode::column_block::{ColumnBlock, PADDING_BYTES};
use crate::decode::column_tree::{ColumnKind, IndexRange};
use crate::decode::decoded_column::{DecodedColumn, TextsRef};
use crate::decode::fixed_width_format::{FixedWidthFormatter, FixedWidthTemplate};

/// The largest dictionary that is joined with a suffix: more values would not stay in the first cache.
const SUFFIXED_VALUES_MAX: usize = 256;

/// Uses per distinct value from which joining the dictionary pays off.
const USES_PER_VALUE_MIN: usize = 4;

/// A short literal that follows all values of a column.
#[derive(Clone, Copy)]
pub(crate) struct LiteralSuffix<'b> {
    /// The literal and the bytes behind it.
    text: &'b [u8; PADDING_BYTES],
    len: u32,
}

impl Default for LiteralSuffix<'_> {
    fn default() -> Self {
        Self { text: &[0; PADDING_BYTES], len: 0 }
    }
}

impl<'b> LiteralSuffix<'b> {
    /// The literal, if it fits.
    pub(crate) fn of(block: &'b ColumnBlock, literal: IndexRange) -> Option<Self> {
        let text = block.padded_literals_from(literal.indices().start)?.first_chunk()?;
        (literal.len as usize <= PADDING_BYTES).then_some(Self { text, len: literal.len })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    fn bytes(self) -> &'b [u8] {
        self.text.get(..self.len as usize).unwrap_or_default()
    }

    /// Writes the suffix at an offset and advances the offset.
    #[inline]
    pub(crate) fn append_to(self, text: &mut [u8], place: &mut u32) -> Option<()> {
        let to: &mut [u8; PADDING_BYTES] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
        *to = *self.text;
        *place = place.wrapping_add(self.len);
        Some(())
    }
}

/// A value with its suffix, and the length of both.
pub(crate) type SuffixedValue = ([u8; PADDING_BYTES], u32);

/// The values of a column with a common suffix.
pub(crate) enum SuffixedColumn<'b> {
    /// Not yet joined; the number of values written so far.
    Counting(usize),
    /// The joined values of a dictionary.
    Texts(Vec<SuffixedValue>),
    /// A formatter, and the suffix if it does not fit into the template.
    Formatted(Box<FixedWidthFormatter<'b>>, LiteralSuffix<'b>),
    /// Too many values, or too long ones.
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

    /// The formatter of the fixed-width column `at`, and the suffix that has to be written separately.
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
            let mut template = FixedWidthTemplate::new(block.tree.pattern(pattern), numbers, block.bytes(nibbles)?)?;
            let rest = template.append(tail.bytes()).map_or(tail, |()| LiteralSuffix::default());
            *self = Self::Formatted(FixedWidthFormatter::new(template).into(), rest);
        }
        match self {
            Self::Formatted(formatter, rest) => Some((formatter, *rest)),
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
