//! Measures the rows of a batch before they are written.
#![deny(clippy::indexing_slicing)]

use crate::decimal;
use crate::decode::column_tree::{ColumnKind, TableNode, TablePart};
use crate::decode::decoded_column::DecodedColumn;
use crate::decode::materialise::RowMaterialiser;

impl RowMaterialiser<'_> {
    /// The length of each row with what follows it. Lengths of lines are kept: measuring is an eighth of the work.
    pub(super) fn row_lengths(&mut self, at: usize, rows: &[u32], behind: u32) -> Option<Vec<u32>> {
        let is_line = at == self.block.root();
        let known = &self.block.line_lengths;
        let mut lens = self.take_list();
        if is_line {
            lens.extend(rows.iter().map_while(|row| known.get(*row)).map(|len| len.wrapping_add(behind)));
            if lens.len() == rows.len() {
                return Some(lens);
            }
        }
        lens.clear();
        lens.resize(rows.len(), 0);
        let all = self.measure(at, rows, &mut lens)?;
        for (row, len) in rows.iter().zip(&mut lens) {
            *len = len.wrapping_add(all);
            if is_line {
                known.set(*row, *len, |bytes| self.block.add_memory(bytes));
            }
            *len = len.wrapping_add(behind);
        }
        Some(lens)
    }

    /// Adds the lengths of values to their rows. Returns the length that all rows have in common, which is not added.
    fn measure(&mut self, at: usize, rows: &[u32], lens: &mut [u32]) -> Option<u32> {
        let block = self.block;
        match block.node(at)?.kind {
            ColumnKind::Constant(list) => return Some(list.len),
            ColumnKind::Copy(of) => return self.measure(of, rows, lens),
            ColumnKind::Raw(payload) => {
                let texts = block.raw_texts(at, payload)?;
                for (row, len) in rows.iter().zip(lens) {
                    *len = len.wrapping_add(texts.range(*row as usize)?.1 as u32);
                }
            }
            ColumnKind::Integers(_) => {
                let DecodedColumn::Numbers(numbers) = block.decoded_column(at)? else { return None };
                for (row, len) in rows.iter().zip(lens) {
                    *len = len.wrapping_add(decimal::decimal_length(numbers.get(*row as usize)? as i64) as u32);
                }
            }
            ColumnKind::Fixed { pattern, .. } => return Some(pattern.len),
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                let (ids, texts) = (block.codes_of(at)?, block.dictionary_values(at, values)?);
                for (row, len) in rows.iter().zip(lens) {
                    *len = len.wrapping_add(texts.range(ids.get(*row as usize)?)?.1 as u32);
                }
            }
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                return self.measure_table(block.tree.tables(tables).first()?, rows, lens);
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                let tables = block.tree.tables(tables);
                let partition = self.take_partition(at, rows, tables.len())?;
                let mut of_some = self.take_list();
                for (table, order, rows) in partition.1.table_slices() {
                    of_some.clear();
                    of_some.resize(rows.len(), 0);
                    let all = match table.checked_sub(1) {
                        None => self.measure(outliers?, rows, &mut of_some)?,
                        Some(table) => self.measure_table(tables.get(table as usize)?, rows, &mut of_some)?,
                    };
                    for (at, more) in order.iter().zip(&of_some) {
                        let len = lens.get_mut(*at as usize)?;
                        *len = len.wrapping_add(*more).wrapping_add(all);
                    }
                }
                self.free_lists.push(of_some);
                self.partitions.put_back(partition);
            }
        }
        Some(0)
    }

    fn measure_table(&mut self, table: &TableNode, rows: &[u32], lens: &mut [u32]) -> Option<u32> {
        let mut all = 0_u32;
        for part in self.block.tree.parts(table) {
            all = all.wrapping_add(match part {
                TablePart::Literal(list) => list.len,
                TablePart::Column(node) => self.measure(*node, rows, lens)?,
            });
        }
        Some(all)
    }
}
