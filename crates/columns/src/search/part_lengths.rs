//! How long a part of a text may be that lies over a column, judged once per column.
//!
//! An alignment divides the text at any byte. Most columns leave few lengths: a fixed-width value has one, an integer has digits
//! only, and small columns tell [at which parts their values end](crate::search::edge_matches).
#![deny(clippy::indexing_slicing)]

use crate::decimal::NUMBER_BYTES_MAX;
use crate::decode::column_tree::ColumnKind;
use crate::search::fixed_width_search::fits_at;
use crate::search::search_context::SearchContext;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};

/// A set of lengths, in bytes. Longer ones than [`LENGTH_MAX`](Self::LENGTH_MAX) are in every set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartLengths(u64);

impl PartLengths {
    const LENGTH_MAX: usize = 63;
    pub(crate) const ALL: Self = Self(u64::MAX);

    fn up_to(length: usize) -> Self {
        if length >= Self::LENGTH_MAX { Self::ALL } else { Self((2 << length) - 1) }
    }

    fn from_fn(lengths: impl Iterator<Item = usize>, may_be: impl Fn(usize) -> bool) -> Self {
        let set = lengths.take_while(|length| *length <= Self::LENGTH_MAX).filter(|length| may_be(*length));
        Self(set.fold(0, |set, length| set | 1 << length))
    }

    pub(crate) fn contains(self, length: usize) -> bool {
        length > Self::LENGTH_MAX || self.0 >> length & 1 == 1
    }
}

impl SearchContext<'_> {
    /// The lengths of parts of the predicate's text, from `start` on, that a value of the column may end with or equal, by `anchor`.
    pub(crate) fn part_lengths(
        &self,
        column: usize,
        predicate: &TextPredicate<'_>,
        start: usize,
        anchor: MatchAnchor,
    ) -> PartLengths {
        let rest = predicate.text.get(start..).unwrap_or_default();
        match self.block.node(column).map(|node| node.kind) {
            Some(ColumnKind::Copy(of)) => self.part_lengths(of, predicate, start, anchor),
            Some(ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. }) => {
                self.part_lengths(values, predicate, start, anchor)
            }
            Some(ColumnKind::Integers(_)) => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
                PartLengths::up_to(digits.min(NUMBER_BYTES_MAX))
            }
            Some(ColumnKind::Fixed { pattern, .. }) => {
                let pattern = self.block.tree.pattern(pattern);
                let fits = |length: usize| {
                    let offset = pattern.len().checked_sub(length).filter(|at| anchor == MatchAnchor::End || *at == 0);
                    let part = rest.get(..length).unwrap_or_default();
                    offset.is_some_and(|offset| fits_at(pattern, offset, part, predicate))
                };
                PartLengths::from_fn(0..=rest.len(), fits)
            }
            Some(ColumnKind::Raw(payload)) => match (self.occurrences.edges(column, payload), anchor) {
                (Some(edges), MatchAnchor::Whole) => PartLengths(edges.whole_lengths(predicate.needle_offset + start)),
                (Some(edges), MatchAnchor::End) if predicate.needle_offset + start == 0 => {
                    PartLengths(edges.prefix_lengths())
                }
                _ => PartLengths::ALL,
            },
            _ => PartLengths::ALL,
        }
    }
}
