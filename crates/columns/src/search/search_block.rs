//! The searches that a block of columns offers.
#![deny(clippy::indexing_slicing)]

use std::ops::ControlFlow;

use bucksaw_search::{Automaton, CancelPoll, LayoutReader, Needle, RowSet, RowsByLayout, SearchBlock};

use crate::decode::column_block::ColumnBlock;
use crate::search::automaton_run::AutomatonRun;
use crate::search::layout_search::LayoutSearch;
use crate::search::literal_prefix::{LITERAL_PREFIX_BYTES_MAX, LiteralPrefix};
use crate::search::needle_occurrences::NeedleOccurrences;
use crate::search::search_context::SearchContext;
use crate::search::text_predicate::TextPredicate;

impl SearchBlock for ColumnBlock {
    fn row_count(&self) -> usize {
        self.rows()
    }

    fn work(&self) -> u64 {
        Self::work(self)
    }

    fn visit_rows(
        &self,
        rows: impl Iterator<Item = usize>,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        self.visit_lines(rows, visit)
    }

    fn find(&self, needle: &Needle, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        find_rows(self, TextPredicate::whole(needle, None), cancel)
    }

    fn find_literal_prefix(&self, needle: &Needle, automaton: &Automaton, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        let is_short = needle.text().len() <= LITERAL_PREFIX_BYTES_MAX;
        find_rows(self, TextPredicate::whole(needle, is_short.then(|| LiteralPrefix::new(needle, automaton))), cancel)
    }

    fn find_accepted(&self, automaton: &Automaton, among: &RowSet, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        AutomatonRun::new(self, automaton, cancel).find_accepted(among)
    }

    fn prefers_layouts(&self) -> bool {
        self.prefers_layouts()
    }

    fn read_layouts<R: LayoutReader>(&self, reader: &R, among: &RowSet) -> Option<RowsByLayout> {
        LayoutSearch::new(self, reader).find(among)
    }
}

fn find_rows(block: &ColumnBlock, predicate: TextPredicate<'_>, cancel: &CancelPoll<'_>) -> Option<RowSet> {
    if predicate.text.is_empty() {
        return Some(RowSet::All);
    }
    // An LF ends each value in a frame, so a needle with an LF could match across two values.
    if predicate.text.contains(&b'\n') {
        return Some(RowSet::None);
    }
    let context = SearchContext { block, occurrences: NeedleOccurrences::new(block, predicate.needle), cancel };
    let found = context.evaluate(block.root(), predicate);
    context.occurrences.report_work();
    found
}
