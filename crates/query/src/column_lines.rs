//! Matching lines of a columnar block, built only when their text is needed.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::Labels;
use bucksaw_search::SearchBlock;
use bucksaw_segment::{ColumnarBlock, Rows, StreamSlice};

/// Matching lines of one stream.
pub(crate) struct ColumnLines<'b> {
    block: &'b ColumnarBlock,
    slice: &'b StreamSlice,
    /// The line of the slice's first row.
    first: usize,
    /// Matching rows of the slice, ascending; `None` for all.
    selected: Option<Vec<u32>>,
    damaged: Cell<bool>,
}

impl<'b> ColumnLines<'b> {
    pub(crate) fn new(
        block: &'b ColumnarBlock,
        slice: &'b StreamSlice,
        first: usize,
        selected: Option<Vec<u32>>,
    ) -> Self {
        Self { block, slice, first, selected, damaged: Cell::new(false) }
    }

    pub(crate) fn labels(&self) -> &'b Labels {
        &self.slice.labels
    }

    /// All rows of the slice.
    pub(crate) fn slice_rows(&self) -> &'b Rows {
        &self.slice.rows
    }

    /// The matching rows.
    pub(crate) fn matching_rows(&self) -> Arc<Rows> {
        match &self.selected {
            None => Arc::clone(&self.slice.rows),
            Some(selected) => Arc::new(self.slice.rows.select(selected.iter().copied())),
        }
    }

    /// Passes each line, without its line end, and its row of the slice to `visit` until it breaks.
    pub(crate) fn for_each_line(&self, visit: &mut dyn FnMut(u32, &[u8]) -> ControlFlow<()>) {
        let columns = &self.block.columns;
        let line = |row: u32| self.first + row as usize;
        let done = match &self.selected {
            None => {
                let mut rows = 0..self.slice.rows.count;
                columns.visit_rows(rows.clone().map(line), &mut |text| visit_line(rows.next(), text, visit))
            }
            Some(selected) => {
                let mut rows = selected.iter().copied();
                columns.visit_rows(rows.clone().map(line), &mut |text| visit_line(rows.next(), text, visit))
            }
        };
        self.damaged.set(done.is_none());
    }

    /// Whether [`Self::for_each_line`] found damage.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.get()
    }
}

fn visit_line(row: Option<u32>, text: &[u8], visit: &mut dyn FnMut(u32, &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
    match (row, text.split_last()) {
        (Some(row), Some((_, line))) => visit(row, line),
        _ => ControlFlow::Break(()),
    }
}
