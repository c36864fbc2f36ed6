//! Matching lines of columns: counted as they are, built when their text is asked for.
//!
//! They are built some at a time, and each is handed over where it was put together: who keeps it copies it, once.

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
    /// The line of the stretch's first row.
    first: usize,
    /// Rows of the stretch, rising; `None` for all of them.
    picked: Option<Vec<u32>>,
    damaged: Cell<bool>,
}

impl<'b> ColumnLines<'b> {
    pub(crate) fn new(
        block: &'b ColumnarBlock,
        stretch: &'b StreamSlice,
        first: usize,
        picked: Option<Vec<u32>>,
    ) -> Self {
        Self { block, slice: stretch, first, picked, damaged: Cell::new(false) }
    }

    pub(crate) fn labels(&self) -> &'b Labels {
        &self.slice.labels
    }

    /// The rows of the whole stretch: those that match are some of them.
    pub(crate) fn slice_rows(&self) -> &'b Rows {
        &self.slice.rows
    }

    /// The rows that match.
    pub(crate) fn matching_rows(&self) -> Arc<Rows> {
        match &self.picked {
            None => Arc::clone(&self.slice.rows),
            Some(picked) => Arc::new(self.slice.rows.select(picked.iter().copied())),
        }
    }

    /// Hands over each line, without a line end, and its row in the stretch, until `each` has enough.
    pub(crate) fn for_each_line(&self, each: &mut dyn FnMut(u32, &[u8]) -> ControlFlow<()>) {
        let columns = &self.block.columns;
        let line = |row: u32| self.first + row as usize;
        let done = match &self.picked {
            None => {
                let mut rows = 0..self.slice.rows.count;
                columns.visit_rows(rows.clone().map(line), &mut |text| visit_line(rows.next(), text, each))
            }
            Some(picked) => {
                let mut rows = picked.iter().copied();
                columns.visit_rows(rows.clone().map(line), &mut |text| visit_line(rows.next(), text, each))
            }
        };
        self.damaged.set(done.is_none());
    }

    /// Whether the block turned out to be damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.get()
    }
}

fn visit_line(row: Option<u32>, text: &[u8], each: &mut dyn FnMut(u32, &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
    match (row, text.split_last()) {
        (Some(row), Some((_, line))) => each(row, line),
        _ => ControlFlow::Break(()),
    }
}
