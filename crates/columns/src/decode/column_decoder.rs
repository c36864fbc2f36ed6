//! Decodes columns on first use and keeps the result with the block.
#![deny(clippy::indexing_slicing)]

use crate::decode::codes::{CodesRef, DecodedCodes};
use crate::decode::column_block::ColumnBlock;
use crate::decode::column_tree::{CodePlanesRef, ColumnKind, NumberPlanesRef, Payload, TableNode};
use crate::decode::decoded_column::{DecodedColumn, TextsRef};
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::decode::number_planes;
use crate::decode::table_rows::{RowsInTables, TableRows};

impl ColumnBlock {
    fn numbers(&self, at: &NumberPlanesRef, rows: usize) -> Option<DecodedNumbers> {
        number_planes::decode(self.bytes(at.planes)?, rows, at.width as usize, at.is_delta, at.base)
    }

    /// A decoded column; `None` if it is damaged.
    pub(crate) fn decoded_column(&self, at: usize) -> Option<&DecodedColumn> {
        let decoded = self.decoded.get(at)?.get_or_init(|| {
            let decoded = Box::new(self.decode(at)?);
            self.add_memory(decoded.memory());
            Some(decoded)
        });
        decoded.as_deref()
    }

    /// The codes of a dictionary or mapped column.
    pub(crate) fn codes_of(&self, at: usize) -> Option<CodesRef<'_>> {
        let DecodedColumn::Codes { codes, .. } = self.decoded_column(at)? else { return None };
        match (codes, self.node(at)?.kind) {
            (Some(ids), _) => self.resolve_codes(ids),
            // The determinant is a dictionary, so the recursion ends here.
            (None, ColumnKind::Mapped { determinant, .. }) => self.codes_of(determinant),
            (None, _) => None,
        }
    }

    fn read_codes(&self, codes: &CodePlanesRef) -> Option<DecodedCodes> {
        DecodedCodes::read(self.bytes(codes.planes)?, codes)
    }

    /// The codes as a slice; codes that were not copied are read where the frame was decompressed.
    pub(crate) fn resolve_codes<'b>(&'b self, codes: &'b DecodedCodes) -> Option<CodesRef<'b>> {
        Some(match codes {
            DecodedCodes::Packed(payload) => CodesRef::Bytes(self.bytes(*payload)?),
            DecodedCodes::Bytes(codes) => CodesRef::Bytes(codes),
            DecodedCodes::Pairs(codes) => CodesRef::Pairs(codes),
            DecodedCodes::Words(codes) => CodesRef::Words(codes),
        })
    }

    /// The texts of a raw column.
    pub(crate) fn raw_texts(&self, at: usize, payload: Payload) -> Option<TextsRef<'_>> {
        let DecodedColumn::TextStarts(starts) = self.decoded_column(at)? else { return None };
        Some(TextsRef { bytes: self.padded_bytes_from(payload)?, starts, separator_bytes: 1 })
    }

    fn table_rows(&self, at: usize) -> Option<(&TableRows, CodesRef<'_>, &[TableNode])> {
        let DecodedColumn::TableRows(table_rows) = self.decoded_column(at)? else { return None };
        let ColumnKind::Tables { tables, .. } = self.node(at)?.kind else { return None };
        Some((table_rows, self.resolve_codes(&table_rows.table_ids)?, self.tree.tables(tables)))
    }

    /// The table id of each value of a column with tables.
    pub(crate) fn table_ids(&self, at: usize) -> Option<CodesRef<'_>> {
        self.table_rows(at).map(|(_, table_ids, _)| table_ids)
    }

    /// The table id of each value of a column with tables, and the row of each value in its table.
    pub(crate) fn rows_in_tables(&self, at: usize) -> Option<(CodesRef<'_>, &[u32])> {
        let (table_rows, table_ids, tables) = self.table_rows(at)?;
        Some((table_ids, table_rows.rows(table_ids, tables, |bytes| self.add_memory(bytes))?))
    }

    /// The table id of each value of a column with tables, and the rows of `count` of the values in their tables.
    pub(crate) fn some_rows_in_tables(&self, at: usize, count: usize) -> Option<(CodesRef<'_>, RowsInTables<'_>)> {
        let (table_rows, table_ids, tables) = self.table_rows(at)?;
        Some((table_ids, table_rows.some_rows(count, table_ids, tables, |bytes| self.add_memory(bytes))?))
    }

    /// The values of each table id of a column with tables.
    pub(crate) fn values_of_tables(&self, at: usize) -> Option<&[Vec<u32>]> {
        let (table_rows, table_ids, tables) = self.table_rows(at)?;
        table_rows.values(table_ids, tables, |bytes| self.add_memory(bytes))
    }

    fn decode(&self, at: usize) -> Option<DecodedColumn> {
        let node = self.node(at)?;
        Some(match node.kind {
            ColumnKind::Constant(_) | ColumnKind::Copy(_) => return None,
            ColumnKind::Raw(payload) => DecodedColumn::TextStarts(starts(self.bytes(payload)?, node.rows)?),
            ColumnKind::Integers(numbers) => DecodedColumn::Numbers(self.numbers(&numbers, node.rows)?),
            ColumnKind::Fixed { numbers, .. } => {
                let numbers = self.tree.numbers(numbers).iter();
                let lists: Option<Vec<DecodedNumbers>> =
                    numbers.map(|numbers| self.numbers(numbers, node.rows)).collect();
                DecodedColumn::Fixed(lists?)
            }
            ColumnKind::Dictionary { codes, .. } => DecodedColumn::of_codes(Some(self.read_codes(&codes)?)),
            ColumnKind::Mapped { map: None, .. } => DecodedColumn::of_codes(None),
            ColumnKind::Mapped { determinant, map: Some(map), .. } => {
                let map = self.read_codes(&map)?;
                DecodedColumn::of_codes(Some(DecodedCodes::mapped(
                    self.codes_of(determinant)?,
                    self.resolve_codes(&map)?,
                )?))
            }
            ColumnKind::Tables { table_ids, .. } => {
                DecodedColumn::TableRows(TableRows::new(self.read_codes(table_ids.as_ref()?)?))
            }
        })
    }
}

/// The starts of values with an LF after each, and the end.
fn starts(raw: &[u8], rows: usize) -> Option<Vec<u32>> {
    let mut starts = Vec::with_capacity(rows + 1);
    starts.push(0);
    starts.extend(memchr::memchr_iter(b'\n', raw).map(|end| end as u32 + 1));
    (starts.len() == rows + 1 && starts.last().is_some_and(|end| *end as usize == raw.len())).then_some(starts)
}
