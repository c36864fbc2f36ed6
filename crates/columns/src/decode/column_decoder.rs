//! Decodes columns on first use and keeps the result with the block.
#![deny(clippy::indexing_slicing)]

use crate::decode::codes::{CodesRef, DecodedCodes};
use crate::decode::column_block::ColumnBlock;
use crate::decode::column_tree::{CodePlanesRef, ColumnKind, NumberPlanesRef, Payload};
use crate::decode::decoded_column::{DecodedColumn, TextsRef};
use crate::decode::number_planes;

impl ColumnBlock {
    fn numbers(&self, at: &NumberPlanesRef, rows: usize) -> Option<Vec<u64>> {
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
            DecodedCodes::Words(codes) => CodesRef::Words(codes),
        })
    }

    /// The texts of a raw column.
    pub(crate) fn raw_texts(&self, at: usize, payload: Payload) -> Option<TextsRef<'_>> {
        let DecodedColumn::TextStarts(starts) = self.decoded_column(at)? else { return None };
        Some(TextsRef { bytes: self.padded_bytes_from(payload)?, starts, separator_bytes: 1 })
    }

    fn decode(&self, at: usize) -> Option<DecodedColumn> {
        let node = self.node(at)?;
        Some(match node.kind {
            ColumnKind::Constant(_) | ColumnKind::Copy(_) => return None,
            ColumnKind::Raw(payload) => DecodedColumn::TextStarts(starts(self.bytes(payload)?, node.rows)?),
            ColumnKind::Integers(numbers) => DecodedColumn::Numbers(self.numbers(&numbers, node.rows)?),
            ColumnKind::Fixed { numbers, .. } => {
                let numbers = self.tree.numbers(numbers).iter();
                let lists: Option<Vec<Vec<u64>>> = numbers.map(|numbers| self.numbers(numbers, node.rows)).collect();
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
            ColumnKind::Tables { table_ids, tables, .. } => {
                let order = table_ids.as_ref()?;
                let (numbers, tables) = (self.read_codes(order)?, self.tree.tables(tables));
                // The sizes that a damaged block claims are not reserved beyond its rows.
                let mut unclaimed = node.rows;
                let mut claim = |rows: usize| {
                    let claimed = rows.min(unclaimed);
                    unclaimed -= claimed;
                    Vec::with_capacity(claimed)
                };
                let of_tables: Vec<Vec<u32>> = tables.iter().map(|table| claim(table.rows)).collect();
                let mut values = vec![claim(node.rows)];
                values.extend(of_tables);
                let mut rows = Vec::with_capacity(node.rows);
                for (value, table) in self.resolve_codes(&numbers)?.iter().enumerate() {
                    let list = values.get_mut(table)?;
                    rows.push(list.len() as u32);
                    list.push(value as u32);
                }
                let fits = tables.iter().zip(values.get(1..)?).all(|(table, values)| table.rows == values.len());
                if !fits {
                    return None;
                }
                DecodedColumn::TableRows { table_ids: numbers, table_rows: rows, table_values: values }
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
