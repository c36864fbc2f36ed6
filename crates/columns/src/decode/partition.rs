//! Rows of a column of several tables, parted by table.
#![deny(clippy::indexing_slicing)]

use crate::decode::codes::CodesRef;

/// Some rows by table.
#[derive(Default)]
pub(crate) struct TablePartition {
    /// Which of the rows, table by table and rising within each.
    positions: Vec<u32>,
    /// The rows in their tables, in that order.
    table_rows: Vec<u32>,
    /// Each table of which there are rows, and where these end in that order.
    ends: Vec<(u32, u32)>,
}

impl TablePartition {
    /// Parts rows, of which each is the row in `inner` of the table in `tables`. All of `counts` are 0, before and after.
    pub(crate) fn partition(
        &mut self,
        rows: &[u32],
        tables: CodesRef<'_>,
        inner: &[u32],
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
            let place = counts.get_mut(tables.get(*row as usize)?)?;
            *self.positions.get_mut(*place as usize)? = at as u32;
            *self.table_rows.get_mut(*place as usize)? = *inner.get(*row as usize)?;
            *place += 1;
        }
        for (table, _) in &self.ends {
            *counts.get_mut(*table as usize)? = 0;
        }
        Some(())
    }

    /// Each table of which there are rows, which of the rows these are, and which rows of the table.
    pub(crate) fn table_slices(&self) -> impl Iterator<Item = (u32, &[u32], &[u32])> {
        let (mut order, mut rows) = (self.positions.as_slice(), self.table_rows.as_slice());
        let mut from = 0;
        self.ends.iter().map_while(move |(table, end)| {
            let count = (end - std::mem::replace(&mut from, *end)) as usize;
            Some((*table, order.split_off(..count)?, rows.split_off(..count)?))
        })
    }
}

/// Partings that are asked for twice, in the same order: when it is measured, and when it is put together.
#[derive(Default)]
pub(crate) struct PartitionCache {
    partitions: Vec<TablePartition>,
    /// How many were made.
    computed: usize,
    next: usize,
    counts: Vec<u32>,
}

impl PartitionCache {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        (self.computed, self.next) = (0, 0);
    }

    /// Goes back to the first.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }

    /// The next parting, which was made before or is made now; to be given back to this place.
    pub(crate) fn take_next(
        &mut self,
        rows: &[u32],
        tables: CodesRef<'_>,
        inner: &[u32],
        table_count: usize,
    ) -> Option<(usize, TablePartition)> {
        let at = self.next;
        self.next += 1;
        if self.partitions.len() <= at {
            self.partitions.resize_with(at + 1, TablePartition::default);
        }
        let mut parting = std::mem::take(self.partitions.get_mut(at)?);
        if at >= self.computed {
            self.computed = self.next;
            if self.counts.len() < table_count {
                self.counts.resize(table_count, 0);
            }
            parting.partition(rows, tables, inner, &mut self.counts)?;
        }
        Some((at, parting))
    }

    pub(crate) fn put_back(&mut self, (at, parting): (usize, TablePartition)) {
        if let Some(place) = self.partitions.get_mut(at) {
            *place = parting;
        }
    }
}
