//! Columns in a form that gives any row at once.
#![deny(clippy::indexing_slicing)]

use crate::codes::{CodesRef, DecodedCodes};
use crate::column_block::ColumnBlock;
use crate::column_tree::{ColumnKind, NumberPlanesRef, Payload};
use crate::materialise::materialise_texts;
use crate::number_planes;
use std::sync::OnceLock;

/// A column in a form that gives any row at once.
#[derive(Debug)]
pub(crate) enum DecodedColumn {
    /// Where each text of a raw column starts; the last place is the end.
    TextStarts(Vec<u32>),
    Numbers(Vec<u64>),
    Fixed(Vec<Vec<u64>>),
    /// Numbers of the values of a dictionary, and these when they are not raw.
    Codes {
        /// `None` where another column's stand for them.
        codes: Option<DecodedCodes>,
        texts: OnceLock<Option<OwnedTexts>>,
    },
    /// For each value its table + 1 or 0, the row in there, and for each table the values.
    TableRows {
        table_ids: DecodedCodes,
        table_rows: Vec<u32>,
        table_values: Vec<Vec<u32>>,
    },
}

/// Texts one after the other.
#[derive(Debug)]
pub(crate) struct OwnedTexts {
    pub(crate) bytes: Vec<u8>,
    /// Where each starts; the last place is the end.
    pub(crate) starts: Vec<u32>,
}

/// Texts one after the other, and some bytes behind them.
#[derive(Clone, Copy)]
pub(crate) struct TextsRef<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) starts: &'b [u32],
    /// Bytes between two.
    pub(crate) separator_bytes: u32,
}

impl<'b> TextsRef<'b> {
    /// One of the texts.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&'b [u8]> {
        let [start, end] = self.starts.get(at..at + 2)? else { return None };
        self.bytes.get(*start as usize..end.checked_sub(self.separator_bytes)? as usize)
    }

    /// Where one of the texts starts, and its length.
    #[inline]
    pub(crate) fn range(&self, at: usize) -> Option<(usize, usize)> {
        let [start, end] = self.starts.get(at..at + 2)? else { return None };
        Some((*start as usize, end.checked_sub(self.separator_bytes)?.checked_sub(*start)? as usize))
    }
}

impl DecodedColumn {
    fn of_codes(codes: Option<DecodedCodes>) -> Self {
        Self::Codes { codes, texts: OnceLock::new() }
    }

    fn memory(&self) -> usize {
        match self {
            Self::TextStarts(list) => list.len() * 4,
            Self::Codes { codes, .. } => codes.as_ref().map_or(0, DecodedCodes::memory),
            Self::Numbers(list) => list.len() * 8,
            Self::Fixed(lists) => lists.iter().map(|list| list.len() * 8).sum(),
            Self::TableRows { table_ids: tables, table_rows: rows, .. } => tables.memory() + rows.len() * 8,
        }
    }
}

impl ColumnBlock {
    fn numbers(&self, at: &NumberPlanesRef, rows: usize) -> Option<Vec<u64>> {
        number_planes::decode(self.bytes(at.planes)?, rows, at.width as usize, at.is_delta, at.base)
    }

    /// The column in a form that gives any row at once; `None` when it is damaged.
    pub(crate) fn decoded_column(&self, at: usize) -> Option<&DecodedColumn> {
        let decoded = self.decoded.get(at)?.get_or_init(|| {
            let decoded = Box::new(self.decode(at)?);
            self.add_memory(decoded.memory());
            Some(decoded)
        });
        decoded.as_deref()
    }

    /// The numbers of values of a dictionary.
    pub(crate) fn codes_of(&self, at: usize) -> Option<CodesRef<'_>> {
        let DecodedColumn::Codes { codes, .. } = self.decoded_column(at)? else { return None };
        match (codes, self.node(at)?.kind) {
            (Some(ids), _) => ids.resolve(self),
            // It follows no other: what is followed stands for itself.
            (None, ColumnKind::Mapped { determinant, .. }) => self.codes_of(determinant),
            (None, _) => None,
        }
    }

    /// The texts of a raw column.
    pub(crate) fn raw_texts(&self, at: usize, payload: Payload) -> Option<TextsRef<'_>> {
        let DecodedColumn::TextStarts(starts) = self.decoded_column(at)? else { return None };
        Some(TextsRef { bytes: self.padded_bytes_from(payload)?, starts, separator_bytes: 1 })
    }

    /// The values of the dictionary `at`.
    pub(crate) fn dictionary_values(&self, at: usize, values: usize) -> Option<TextsRef<'_>> {
        if let ColumnKind::Raw(payload) = self.node(values)?.kind {
            return self.raw_texts(values, payload);
        }
        let DecodedColumn::Codes { texts: known, .. } = self.decoded_column(at)? else { return None };
        let made = known.get_or_init(|| {
            let made = materialise_texts(self, values)?;
            self.add_memory(made.bytes.len() + made.starts.len() * 4);
            Some(made)
        });
        made.as_ref().map(|texts| TextsRef { bytes: &texts.bytes, starts: &texts.starts, separator_bytes: 0 })
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
            ColumnKind::Dictionary { codes, .. } => DecodedColumn::of_codes(Some(DecodedCodes::read(self, &codes)?)),
            ColumnKind::Mapped { map: None, .. } => DecodedColumn::of_codes(None),
            ColumnKind::Mapped { determinant, map: Some(map), .. } => {
                let map = DecodedCodes::read(self, &map)?;
                DecodedColumn::of_codes(Some(DecodedCodes::mapped(self.codes_of(determinant)?, map.resolve(self)?)?))
            }
            ColumnKind::Tables { table_ids, tables, .. } => {
                let order = table_ids.as_ref()?;
                let (numbers, tables) = (DecodedCodes::read(self, order)?, self.tree.tables(tables));
                let mut values: Vec<Vec<u32>> = vec![Vec::new(); tables.len() + 1];
                let mut rows = Vec::with_capacity(node.rows);
                for (value, table) in numbers.resolve(self)?.iter().enumerate() {
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

/// Where the texts start that have an LF after each.
fn starts(raw: &[u8], rows: usize) -> Option<Vec<u32>> {
    let mut starts = Vec::with_capacity(rows + 1);
    starts.push(0);
    starts.extend(memchr::memchr_iter(b'\n', raw).map(|end| end as u32 + 1));
    (starts.len() == rows + 1 && starts.last().is_some_and(|end| *end as usize == raw.len())).then_some(starts)
}
