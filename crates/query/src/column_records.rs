//! Matching records of a columnar block, built only when their text is needed.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::{Labels, RecordView};
use bucksaw_segment::{ColumnarBlock, Rows, StreamSlice};

/// Matching records of one stream.
pub(crate) struct ColumnRecords<'b> {
    block: &'b ColumnarBlock,
    slice: &'b StreamSlice,
    /// The record of the block that is the slice's first row.
    first: usize,
    /// Matching rows of the slice, ascending; `None` for all.
    selected: Option<Vec<u32>>,
    damaged: Cell<bool>,
}

impl<'b> ColumnRecords<'b> {
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

    /// Passes each record and its row of the slice to `visit` until it breaks.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(u32, RecordView<'_>) -> ControlFlow<()>) {
        let done = match &self.selected {
            None => self.visit_rows(0..self.slice.rows.count, visit),
            Some(selected) => self.visit_rows(selected.iter().copied(), visit),
        };
        self.damaged.set(done.is_none());
    }

    fn visit_rows(
        &self,
        mut rows: impl Iterator<Item = u32> + Clone,
        visit: &mut dyn FnMut(u32, RecordView<'_>) -> ControlFlow<()>,
    ) -> Option<()> {
        let records = rows.clone().map(|row| self.first + row as usize);
        self.block.records()?.visit(records, &mut |record| match rows.next() {
            Some(row) => visit(row, record),
            None => ControlFlow::Break(()),
        })
    }

    /// Whether [`Self::for_each`] found damage.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.get()
    }
}
