//! Columns in a form that gives any row at once.
#![deny(clippy::indexing_slicing)]

use crate::ids::{IdsAt, Numbering};
use crate::numbers;
use crate::open::Block;
use crate::tree::{Kind, NumbersAt, Payload};
use crate::weave::texts;
use std::sync::OnceLock;

/// A column in a form that gives any row at once.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// Where each text of a raw column starts; the last place is the end.
    Starts(Vec<u32>),
    Numbers(Vec<u64>),
    Fixed(Vec<Vec<u64>>),
    /// Numbers of the values of a dictionary, and these when they are not raw.
    Ids {
        /// `None` where another column's stand for them.
        ids: Option<Numbering>,
        texts: OnceLock<Option<Texts>>,
    },
    /// For each value its table + 1 or 0, the row in there, and for each table the values.
    Order {
        tables: Numbering,
        rows: Vec<u32>,
        values: Vec<Vec<u32>>,
    },
}

/// Texts one after the other.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) bytes: Vec<u8>,
    /// Where each starts; the last place is the end.
    pub(crate) starts: Vec<u32>,
}

/// Texts one after the other, and some bytes behind them.
#[derive(Clone, Copy)]
pub(crate) struct TextsAt<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) starts: &'b [u32],
    /// Bytes between two.
    pub(crate) gap: u32,
}

impl<'b> TextsAt<'b> {
    /// One of the texts.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&'b [u8]> {
        let [start, end] = self.starts.get(at..at + 2)? else { return None };
        self.bytes.get(*start as usize..end.checked_sub(self.gap)? as usize)
    }

    /// Where one of the texts starts, and its length.
    #[inline]
    pub(crate) fn range(&self, at: usize) -> Option<(usize, usize)> {
        let [start, end] = self.starts.get(at..at + 2)? else { return None };
        Some((*start as usize, end.checked_sub(self.gap)?.checked_sub(*start)? as usize))
    }
}

impl Decoded {
    fn of_ids(ids: Option<Numbering>) -> Self {
        Self::Ids { ids, texts: OnceLock::new() }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Starts(list) => list.len() * 4,
            Self::Ids { ids, .. } => ids.as_ref().map_or(0, Numbering::memory),
            Self::Numbers(list) => list.len() * 8,
            Self::Fixed(lists) => lists.iter().map(|list| list.len() * 8).sum(),
            Self::Order { tables, rows, .. } => tables.memory() + rows.len() * 8,
        }
    }
}

impl Block {
    fn numbers(&self, at: &NumbersAt, rows: usize) -> Option<Vec<u64>> {
        numbers::decode(self.bytes(at.planes)?, rows, at.width as usize, at.steps, at.base)
    }

    /// The column in a form that gives any row at once; `None` when it is damaged.
    pub(crate) fn decoded(&self, at: usize) -> Option<&Decoded> {
        let decoded = self.decoded.get(at)?.get_or_init(|| {
            let decoded = Box::new(self.decode(at)?);
            self.add_memory(decoded.memory());
            Some(decoded)
        });
        decoded.as_deref()
    }

    /// The numbers of values of a dictionary.
    pub(crate) fn ids_of(&self, at: usize) -> Option<IdsAt<'_>> {
        let Decoded::Ids { ids, .. } = self.decoded(at)? else { return None };
        match (ids, self.node(at)?.kind) {
            (Some(ids), _) => ids.at(self),
            // It follows no other: what is followed stands for itself.
            (None, Kind::Mapped { leader, .. }) => self.ids_of(leader),
            (None, _) => None,
        }
    }

    /// The texts of a raw column.
    pub(crate) fn raw_texts(&self, at: usize, payload: Payload) -> Option<TextsAt<'_>> {
        let Decoded::Starts(starts) = self.decoded(at)? else { return None };
        Some(TextsAt { bytes: self.bytes_on(payload)?, starts, gap: 1 })
    }

    /// The values of the dictionary `at`.
    pub(crate) fn values_of(&self, at: usize, values: usize) -> Option<TextsAt<'_>> {
        if let Kind::Raw(payload) = self.node(values)?.kind {
            return self.raw_texts(values, payload);
        }
        let Decoded::Ids { texts: known, .. } = self.decoded(at)? else { return None };
        let made = known.get_or_init(|| {
            let made = texts(self, values)?;
            self.add_memory(made.bytes.len() + made.starts.len() * 4);
            Some(made)
        });
        made.as_ref().map(|texts| TextsAt { bytes: &texts.bytes, starts: &texts.starts, gap: 0 })
    }

    fn decode(&self, at: usize) -> Option<Decoded> {
        let node = self.node(at)?;
        Some(match node.kind {
            Kind::Same(_) | Kind::Copy(_) => return None,
            Kind::Raw(payload) => Decoded::Starts(starts(self.bytes(payload)?, node.rows)?),
            Kind::Integers(numbers) => Decoded::Numbers(self.numbers(&numbers, node.rows)?),
            Kind::Fixed { numbers, .. } => {
                let numbers = self.tree.numbers(numbers).iter();
                let lists: Option<Vec<Vec<u64>>> = numbers.map(|numbers| self.numbers(numbers, node.rows)).collect();
                Decoded::Fixed(lists?)
            }
            Kind::Dictionary { ids, .. } => Decoded::of_ids(Some(Numbering::read(self, &ids)?)),
            Kind::Mapped { map: None, .. } => Decoded::of_ids(None),
            Kind::Mapped { leader, map: Some(map), .. } => {
                let map = Numbering::read(self, &map)?;
                Decoded::of_ids(Some(Numbering::mapped(self.ids_of(leader)?, map.at(self)?)?))
            }
            Kind::Split { order, tables, .. } => {
                let order = order.as_ref()?;
                let (numbers, tables) = (Numbering::read(self, order)?, self.tree.tables(tables));
                let mut values: Vec<Vec<u32>> = vec![Vec::new(); tables.len() + 1];
                let mut rows = Vec::with_capacity(node.rows);
                for (value, table) in numbers.at(self)?.iter().enumerate() {
                    let list = values.get_mut(table)?;
                    rows.push(list.len() as u32);
                    list.push(value as u32);
                }
                let fits = tables.iter().zip(values.get(1..)?).all(|(table, values)| table.rows == values.len());
                if !fits {
                    return None;
                }
                Decoded::Order { tables: numbers, rows, values }
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
