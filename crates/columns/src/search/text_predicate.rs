//! A part of a needle, and where in a value it must occur.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_search::Needle;

use crate::search::literal_prefix::LiteralPrefix;

/// Where in a value a text must occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchAnchor {
    Anywhere,
    Start,
    End,
    Whole,
}

/// What the values of a column are tested for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPredicate<'n> {
    pub(crate) needle: &'n Needle,
    /// A part of the needle; the whole needle if it may occur anywhere.
    pub(crate) text: &'n [u8],
    /// The offset of the part in the needle.
    pub(crate) needle_offset: usize,
    pub(crate) anchor: MatchAnchor,
    /// If the needle is a literal prefix of a regex: its automaton, which may exclude rows without a match.
    pub(crate) literal_prefix: Option<LiteralPrefix<'n>>,
}

impl<'n> TextPredicate<'n> {
    /// The whole needle anywhere.
    pub(crate) fn whole(needle: &'n Needle, literal_prefix: Option<LiteralPrefix<'n>>) -> Self {
        Self { needle, text: needle.text(), needle_offset: 0, anchor: MatchAnchor::Anywhere, literal_prefix }
    }

    /// The predicate for one column of a table: a part of the text.
    pub(crate) fn sub_predicate(&self, range: Range<usize>, anchor: MatchAnchor) -> Self {
        Self {
            needle: self.needle,
            needle_offset: self.needle_offset + range.start,
            text: self.text.get(range).unwrap_or_default(),
            anchor,
            literal_prefix: self.literal_prefix.filter(|_| anchor == MatchAnchor::Anywhere),
        }
    }

    /// Whether the text contains the core of the needle, and the occurrences of the core suffice to find the text.
    pub(crate) fn covers_core(&self) -> bool {
        let core = self.needle.core();
        let contains = self.needle_offset <= core.start && core.end <= self.needle_offset + self.text.len();
        contains && (self.anchor == MatchAnchor::Anywhere || self.needle.has_non_overlapping_core())
    }

    /// The first byte of the text in lower and upper case; twice the same byte if case matters.
    pub(crate) fn first_byte_cases(&self) -> (u8, u8) {
        let first = self.text.first().copied().unwrap_or_default();
        (first, if self.needle.any_case() { first.to_ascii_uppercase() } else { first })
    }

    /// Whether two texts are equal under the needle's case rule.
    #[inline]
    pub(crate) fn texts_equal(&self, a: &[u8], b: &[u8]) -> bool {
        if self.needle.any_case() {
            return a.eq_ignore_ascii_case(b);
        }
        // Most texts differ in the first byte, which is cheaper to compare than to call memcmp.
        a.first() == b.first() && a == b
    }

    /// Whether a value passes.
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
