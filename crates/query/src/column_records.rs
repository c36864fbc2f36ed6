//! Matching records of a columnar block, built only when their text is needed.

use std::cell::{Cell, OnceCell};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bucksaw_record::{Labels, RecordView};
use bucksaw_search::RowSet;
use bucksaw_segment::{ColumnarBlock, Rows, StreamSlice};

use crate::request::Order;

/// Matching records of one stream.
pub(crate) struct ColumnRecords<'b> {
    block: &'b ColumnarBlock,
    slice: &'b StreamSlice,
    /// The records of the block that are the rows of the slice.
    rows_of_slice: Range<usize>,
    /// The matching records of the block.
    matching: &'b RowSet,
    order: Order,
    /// The number of matching records, at most the limit.
    count: usize,
    /// These rows of the slice, ascending, once they were asked for; `None` for all.
    selected: OnceCell<Option<Vec<u32>>>,
    damaged: Cell<bool>,
}

impl<'b> ColumnRecords<'b> {
    /// The first `limit` records of the slice, in this order, that are among `matching` records of the block.
    pub(crate) fn new(
        block: &'b ColumnarBlock,
        (slice, rows_of_slice): (&'b StreamSlice, Range<usize>),
        matching: &'b RowSet,
        (order, limit): (Order, usize),
    ) -> Self {
        let count = matching.count_in(rows_of_slice.clone()).min(limit);
        Self {
            block,
            slice,
            rows_of_slice,
            matching,
            order,
            count,
            selected: OnceCell::new(),
            damaged: Cell::new(false),
        }
    }

    /// The number of matching records.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn selected(&self) -> Option<&[u32]> {
        let select = || {
            if self.count == self.rows_of_slice.len() {
                return None;
            }
            let range = self.rows_of_slice.clone();
            let row = |row: usize| (row - self.rows_of_slice.start) as u32;
            Some(match self.order {
                Order::Ascending => self.matching.first_in(range, self.count).map(row).collect(),
                Order::Descending => self.matching.last_in(range, self.count).into_iter().map(row).collect(),
            })
        };
        self.selected.get_or_init(select).as_deref()
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
        match self.selected() {
            None => Arc::clone(&self.slice.rows),
            Some(selected) => Arc::new(self.slice.rows.select(selected.iter().copied())),
        }
    }

    /// Passes each record and its row of the slice to `visit` until it breaks.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(u32, RecordView<'_>) -> ControlFlow<()>) {
        let done = match self.selected() {
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
        let records = rows.clone().map(|row| self.rows_of_slice.start + row as usize);
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
