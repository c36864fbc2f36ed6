//! Partitions the rows of a column of layout tables by table.
#![deny(clippy::indexing_slicing)]

use crate::decode::codes::CodesRef;
use crate::decode::table_rows::RowsInTables;

/// Rows grouped by table.
#[derive(Default)]
pub(crate) struct TablePartition {
    /// Positions among the rows, table by table and rising within each.
    positions: Vec<u32>,
    /// The row in its table, in the same order.
    table_rows: Vec<u32>,
    /// Each table that has rows, and the end of its rows in that order.
    ends: Vec<(u32, u32)>,
}

impl TablePartition {
    /// Groups `rows`; `tables` gives the table of a row and `inner` the row in that table. All `counts` are 0 before and after.
    pub(crate) fn partition(
        &mut self,
        rows: &[u32],
        tables: CodesRef<'_>,
        inner: RowsInTables<'_>,
        counts: &mut [u32],
    ) -> Option<()> {
        self.ends.clear();
        for row in rows {
            let table = tables.get(*row as usize)?;
            let count = counts.get_mut(table)?;
            if *count == 0 {
                self.ends.push((table as u32, 0));
            }
            *count += 1;
        }
        let mut next = 0;
        for (table, end) in &mut self.ends {
            let count = counts.get_mut(*table as usize)?;
            next += std::mem::replace(count, next);
            *end = next;
        }
        self.positions.resize(rows.len(), 0);
        self.table_rows.resize(rows.len(), 0);
        for (at, row) in rows.iter().enumerate() {
            let table = tables.get(*row as usize)?;
            let place = counts.get_mut(table)?;
            *self.positions.get_mut(*place as usize)? = at as u32;
            *self.table_rows.get_mut(*place as usize)? = inner.get(*row, table)?;
            *place += 1;
        }
        for (table, _) in &self.ends {
            *counts.get_mut(*table as usize)? = 0;
        }
        Some(())
    }

    /// Each table that has rows, their positions, and their rows in the table.
    pub(crate) fn table_slices(&self) -> impl Iterator<Item = (u32, &[u32], &[u32])> {
        let (mut order, mut rows) = (self.positions.as_slice(), self.table_rows.as_slice());
        let mut from = 0;
        self.ends.iter().map_while(move |(table, end)| {
            let count = (end - std::mem::replace(&mut from, *end)) as usize;
            Some((*table, order.split_off(..count)?, rows.split_off(..count)?))
        })
    }
}

/// Partitions of a batch, computed while it is measured and used again, in the same order, while it is written.
#[derive(Default)]
pub(crate) struct PartitionCache {
    partitions: Vec<TablePartition>,
    /// How many are valid.
    computed: usize,
    next: usize,
    counts: Vec<u32>,
}

impl PartitionCache {
    /// Invalidates all partitions.
    pub(crate) fn clear(&mut self) {
        (self.computed, self.next) = (0, 0);
    }

    /// Returns to the first partition.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }

    /// The next partition, computed if it is not valid; to be returned with [`Self::put_back`].
    pub(crate) fn take_next(
        &mut self,
        rows: &[u32],
        tables: CodesRef<'_>,
        inner: RowsInTables<'_>,
        table_count: usize,
    ) -> Option<(usize, TablePartition)> {
        let at = self.next;
        self.next += 1;
        if self.partitions.len() <= at {
            self.partitions.resize_with(at + 1, TablePartition::default);
        }
        let mut partition = std::mem::take(self.partitions.get_mut(at)?);
        if at >= self.computed {
            self.computed = self.next;
            if self.counts.len() < table_count {
                self.counts.resize(table_count, 0);
            }
            partition.partition(rows, tables, inner, &mut self.counts)?;
        }
        Some((at, partition))
    }

    pub(crate) fn put_back(&mut self, (at, partition): (usize, TablePartition)) {
        if let Some(place) = self.partitions.get_mut(at) {
            *place = partition;
        }
    }
}
