//! Which values of a column are in which of its layout tables.
//!
//! A search needs the values of the tables where it found something; building a value needs its row in its table. The first
//! question about a block rarely needs both.
#![deny(clippy::indexing_slicing)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::decode::codes::{CodesRef, DecodedCodes};
use crate::decode::column_tree::TableNode;

/// One in this many values of a column may be searched for in the list of its table before the rows of all values are listed.
const LOOKUPS_DIVISOR: usize = 32;

/// The division of a column's values among tables. Table id 0 is the outliers. A list is `None` if the block is damaged: if the
/// tables have other numbers of rows than values have their ids.
#[derive(Debug)]
pub(crate) struct TableRows {
    pub(crate) table_ids: DecodedCodes,
    /// The row of each value in its table.
    rows: OnceLock<Option<Vec<u32>>>,
    /// The values of each table id.
    values: OnceLock<Option<Vec<Vec<u32>>>>,
    /// Values that were searched for in `values`.
    lookups: AtomicUsize,
}

/// The row of each value in its table.
#[derive(Clone, Copy)]
pub(crate) enum RowsInTables<'b> {
    Listed(&'b [u32]),
    /// The values of each table id, in which a value is searched for.
    Searched(&'b [Vec<u32>]),
}

impl RowsInTables<'_> {
    /// The row of a value in the table of this id.
    #[inline]
    pub(crate) fn get(self, value: u32, table: usize) -> Option<u32> {
        match self {
            Self::Listed(rows) => rows.get(value as usize).copied(),
            Self::Searched(values) => values.get(table)?.binary_search(&value).ok().map(|row| row as u32),
        }
    }
}

impl TableRows {
    pub(crate) fn new(table_ids: DecodedCodes) -> Self {
        Self { table_ids, rows: OnceLock::new(), values: OnceLock::new(), lookups: AtomicUsize::new(0) }
    }

    /// Memory of the table ids, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.table_ids.memory()
    }

    /// The row of each value in its table. `table_ids` are those of this column as a slice; `add_memory` is given the bytes of a new
    /// list.
    pub(crate) fn rows(
        &self,
        table_ids: CodesRef<'_>,
        tables: &[TableNode],
        add_memory: impl FnOnce(usize),
    ) -> Option<&[u32]> {
        let rows = self.rows.get_or_init(|| {
            add_memory(table_ids.len() * size_of::<u32>());
            let mut ends = vec![0_u32; tables.len() + 1];
            let mut rows = Vec::with_capacity(table_ids.len());
            for table in table_ids.iter() {
                let end = ends.get_mut(table)?;
                rows.push(*end);
                *end += 1;
            }
            let fits = tables.iter().zip(ends.get(1..)?).all(|(table, end)| table.rows == *end as usize);
            fits.then_some(rows)
        });
        rows.as_deref()
    }

    /// The rows of `count` of the values in their tables; parameters as of [`Self::rows`]. If few rows were asked for so far, they are
    /// not listed for all values.
    pub(crate) fn some_rows(
        &self,
        count: usize,
        table_ids: CodesRef<'_>,
        tables: &[TableNode],
        add_memory: impl FnOnce(usize),
    ) -> Option<RowsInTables<'_>> {
        if self.rows.get().is_none()
            && let Some(Some(values)) = self.values.get()
        {
            let lookups = self.lookups.fetch_add(count, Ordering::Relaxed).saturating_add(count);
            if lookups.saturating_mul(LOOKUPS_DIVISOR) <= table_ids.len() {
                return Some(RowsInTables::Searched(values));
            }
        }
        self.rows(table_ids, tables, add_memory).map(RowsInTables::Listed)
    }

    /// The values of each table id; parameters as of [`Self::rows`].
    pub(crate) fn values(
        &self,
        table_ids: CodesRef<'_>,
        tables: &[TableNode],
        add_memory: impl FnOnce(usize),
    ) -> Option<&[Vec<u32>]> {
        let values = self.values.get_or_init(|| {
            add_memory(table_ids.len() * size_of::<u32>() + (tables.len() + 1) * size_of::<Vec<u32>>());
            // The sizes that a damaged block claims are not reserved beyond its rows.
            let mut unclaimed = table_ids.len();
            let mut of_tables: Vec<Vec<u32>> = Vec::with_capacity(tables.len() + 1);
            of_tables.push(Vec::new());
            for table in tables {
                unclaimed = unclaimed.checked_sub(table.rows)?;
                of_tables.push(Vec::with_capacity(table.rows));
            }
            of_tables.first_mut()?.reserve(unclaimed);
            for (value, table) in (0_u32..).zip(table_ids.iter()) {
                of_tables.get_mut(table)?.push(value);
            }
            let fits = tables.iter().zip(of_tables.get(1..)?).all(|(table, values)| table.rows == values.len());
            fits.then_some(of_tables)
        });
        values.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_binary::put_varint;

    use crate::decode::column_block::ColumnBlock;

    /// A block of three lines, `x`, `y` and `x` for example, whose table ids and number of rows of the only table are given.
    fn block(table_ids: [u8; 3], table_rows: u64) -> ColumnBlock {
        let outliers = b"y\n".repeat(3 - table_rows as usize);
        let frame = [&table_ids[..], &outliers].concat();
        let mut meta = vec![1, 0, 1];
        for payload in [[0, 0, 3], [0, 3, outliers.len() as u64], [table_rows, 1, u64::from(b'x')]] {
            payload.iter().for_each(|number| put_varint(&mut meta, *number));
        }
        let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
        let (packed_meta, packed_frame) = (packed(&meta), packed(&frame));
        let mut out = Vec::new();
        for number in [meta.len(), packed_meta.len(), 1, packed_frame.len(), frame.len()] {
            put_varint(&mut out, number as u64);
        }
        ColumnBlock::open([out, packed_meta, packed_frame].concat(), 3, 6).unwrap()
    }

    #[test]
    fn values_are_in_the_tables_of_their_ids() {
        let block = block([1, 0, 1], 2);
        let root = block.root();
        let (few, rows) = block.some_rows_in_tables(root, 1).unwrap();
        assert_eq!((few.get(1), rows.get(1, 0), rows.get(2, 1)), (Some(0), Some(0), Some(1)));
        assert_eq!(block.values_of_tables(root).unwrap(), [vec![1], vec![0, 2]]);
        assert_eq!(block.rows_in_tables(root).unwrap().1, [0, 0, 1]);
    }

    #[test]
    fn tables_with_other_numbers_of_rows_are_damage() {
        for (table_ids, table_rows) in [([1, 1, 1], 2), ([1, 0, 0], 2), ([0, 0, 0], 1)] {
            let (for_rows, for_values) = (block(table_ids, table_rows), block(table_ids, table_rows));
            assert!(for_rows.rows_in_tables(for_rows.root()).is_none(), "{table_ids:?}");
            assert!(for_values.values_of_tables(for_values.root()).is_none(), "{table_ids:?}");
        }
    }
}
