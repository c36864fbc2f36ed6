//! What a codec offers to a search.

use std::ops::ControlFlow;

use crate::{AsciiSet, Automaton, CancelPoll, LayoutReader, Needle, RowSet};

/// The rows that a [`LayoutReader`] decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsByLayout {
    /// The rows whose reading holds.
    pub decided: RowSet,
    /// Those of them whose tested text passes.
    pub passing: RowSet,
}

/// A block of rows that can be searched, whatever its encoding.
///
/// Rows are numbered from 0. A row is a line, or a record of several lines. The provided methods build every row and test
/// it; a codec overrides them where it can answer without building rows. Every method returns `None` if the block is
/// damaged. Rows that are returned after a cancellation are meaningless.
pub trait SearchBlock {
    /// The number of rows.
    fn row_count(&self) -> usize;

    /// Calls `visit` with each of `rows`, given in rising order, until it breaks. Each row ends with an LF. If the block is
    /// damaged, some rows may have been visited.
    fn visit_rows(
        &self,
        rows: impl Iterator<Item = usize>,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()>;

    /// The work of all searches of the block so far. One unit is the time in which a rare text is searched for in one byte of
    /// text. A count, not a time, so that equal searches have equal work; threads that search at once see the sum. A codec
    /// without such a count has 0.
    fn work(&self) -> u64 {
        0
    }

    /// The rows that contain the needle.
    fn find(&self, needle: &Needle, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        test_rows(self, &RowSet::All, cancel, |row| needle.find(row, 0).is_some())
    }

    /// All rows in which a match that begins with the needle exists, and possibly others that contain the needle.
    /// `automaton` accepts a row from the first byte of a match on. If the needle is case-insensitive, the automaton is too.
    fn find_literal_prefix(&self, needle: &Needle, automaton: &Automaton, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        let _ = automaton;
        self.find(needle, cancel)
    }

    /// The rows of `among` that the automaton accepts.
    fn find_accepted(&self, automaton: &Automaton, among: &RowSet, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        test_rows(self, among, cancel, |row| automaton.accepts(automaton.run(automaton.start(), row)))
    }

    /// Whether reading layouts is expected to cost less than a search of all values: if they are few, and were read before. The first
    /// reading tests the values of all rows for what later ones take as known.
    fn prefers_layouts(&self) -> bool {
        false
    }

    /// The rows of `among` that the reader decides by their layout. Without layouts, or where building rows is cheaper, a codec
    /// decides none.
    fn read_layouts<R: LayoutReader>(&self, reader: &R, among: &RowSet) -> Option<RowsByLayout> {
        let _ = (reader, among);
        Some(RowsByLayout { decided: RowSet::None, passing: RowSet::None })
    }
}

/// The rows of `among` that pass, each tested without its LF.
fn test_rows<B: SearchBlock + ?Sized>(
    block: &B,
    among: &RowSet,
    cancel: &CancelPoll<'_>,
    test: impl Fn(&[u8]) -> bool,
) -> Option<RowSet> {
    let mut found = crate::Bitmap::new(block.row_count());
    let rows = || (0..block.row_count()).filter(|row| among.contains(*row));
    let mut visited = rows();
    block.visit_rows(rows(), &mut |row| {
        let number = visited.next();
        if row.split_last().is_some_and(|(_, row)| test(row)) {
            number.into_iter().for_each(|number| found.set(number));
        }
        if cancel.poll() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Some(RowSet::from_bitmap(found))
}

/// A test of a block before it is opened. `false` is certain; `true` may be wrong.
pub trait SkipFilter: Copy {
    /// Whether a row may contain the text; with `any_case`, ASCII letters match in either case.
    fn may_contain(&self, text: &[u8], any_case: bool) -> bool;

    /// The ASCII bytes that rows may write as an escape of JSON, such as `\/` or `\u0041`.
    fn escaped_bytes(&self) -> AsciiSet;
}
