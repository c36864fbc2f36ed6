//! Evaluates one needle on the columns of one block without decoding them.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::CancelPoll;

use crate::decimal::NUMBER_BYTES_MAX;
use crate::decode::column_block::ColumnBlock;
use crate::decode::column_tree::{ColumnKind, IndexRange, TablePart};
use crate::search::fixed_width_search::fitting_offsets;
use crate::search::needle_occurrences::NeedleOccurrences;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};

/// A block and the occurrences of a needle in it.
pub(crate) struct SearchContext<'b> {
    pub(crate) block: &'b ColumnBlock,
    pub(crate) occurrences: NeedleOccurrences<'b>,
    pub(crate) cancel: &'b CancelPoll<'b>,
}

impl SearchContext<'_> {
    /// Reports the work so far now and then, and returns whether the search is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        if !self.occurrences.is_report_due() {
            return self.cancel.is_cancelled();
        }
        self.occurrences.report_work();
        self.cancel.poll()
    }

    /// Whether a literal passes.
    pub(crate) fn literal_matches(&self, literal: IndexRange, predicate: &TextPredicate<'_>) -> bool {
        match predicate.anchor {
            MatchAnchor::Anywhere => self.occurrences.is_in_literal(literal),
            _ => predicate.matches(self.block.literal(literal)),
        }
    }

    /// Whether a value of the column may pass, judged by its encoding and by what is found once per frame or column.
    pub(crate) fn may_match(&self, column: usize, predicate: &TextPredicate<'_>) -> bool {
        match self.block.node(column).map(|node| node.kind) {
            Some(ColumnKind::Integers(_)) => {
                let digits = predicate.text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
                digits && predicate.text.len() <= NUMBER_BYTES_MAX
            }
            Some(ColumnKind::Fixed { pattern, .. }) => {
                fitting_offsets(self.block.tree.pattern(pattern), predicate).next().is_some()
            }
            Some(ColumnKind::Raw(payload)) => self.occurrences.may_be_in(column, payload, predicate),
            Some(ColumnKind::Copy(of)) => self.may_match(of, predicate),
            Some(ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. }) => {
                self.may_match(values, predicate)
            }
            _ => true,
        }
    }

    /// The text of a part that is the same in all rows.
    pub(crate) fn constant_literal(&self, part: &TablePart) -> Option<IndexRange> {
        match part {
            TablePart::Literal(list) => Some(*list),
            TablePart::Column(column) => match self.block.node(*column)?.kind {
                ColumnKind::Constant(list) => Some(list),
                _ => None,
            },
        }
    }
}
