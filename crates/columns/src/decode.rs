//! Columns in a form that gives any row at once.
#![deny(clippy::indexing_slicing)]

use crate::numbers;
use crate::open::{Block, Ids, Kind, NumbersAt};
use crate::rebuild::SLACK;

/// A column in a form that gives any row at once.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// Texts one after the other and where each starts; the last place is the end.
    Text {
        bytes: Vec<u8>,
        starts: Vec<u32>,
        gap: u32,
    },
    Numbers(Vec<u64>),
    Fixed(Vec<Vec<u64>>),
    Ids(Vec<u32>),
    /// For each value its table + 1 or 0, the row in there, and for each table the values.
    Order {
        tables: Vec<u32>,
        rows: Vec<u32>,
        values: Vec<Vec<u32>>,
    },
}

impl Block {
    fn numbers(&self, at: &NumbersAt, rows: usize) -> Option<Vec<u64>> {
        numbers::decode(self.bytes(at.planes)?, rows, at.width as usize, at.steps, at.base)
    }

    pub(crate) fn ids(&self, ids: &Ids) -> Option<Vec<u32>> {
        let planes = self.bytes(ids.planes)?;
        let count = planes.len() / ids.width as usize;
        let mut out: Vec<u32> = planes.iter().take(count).map(|byte| u32::from(*byte)).collect();
        for (at, plane) in planes.chunks_exact(count.max(1)).enumerate().skip(1) {
            out.iter_mut().zip(plane).for_each(|(id, byte)| *id |= u32::from(*byte) << (at * 8));
        }
        out.iter().all(|id| *id < ids.below).then_some(out)
    }

    /// The column in a form that gives any row at once; `None` when it is damaged.
    pub(crate) fn decoded(&self, at: usize) -> Option<&Decoded> {
        self.decoded.get(at)?.get_or_init(|| self.decode(at)).as_ref()
    }

    fn decode(&self, at: usize) -> Option<Decoded> {
        let node = self.nodes.get(at)?;
        Some(match &node.kind {
            Kind::Same(_) | Kind::Copy(_) => return None,
            Kind::Raw(payload) => text(self.bytes(*payload)?, node.rows)?,
            Kind::Integers(numbers) => Decoded::Numbers(self.numbers(numbers, node.rows)?),
            Kind::Fixed { numbers, .. } => {
                let lists: Option<Vec<Vec<u64>>> =
                    numbers.iter().map(|numbers| self.numbers(numbers, node.rows)).collect();
                Decoded::Fixed(lists?)
            }
            Kind::Dictionary { ids, .. } => Decoded::Ids(self.ids(ids)?),
            Kind::Mapped { leader, map, .. } => {
                let Decoded::Ids(leader) = self.decoded(*leader)? else { return None };
                match map {
                    None => Decoded::Ids(leader.clone()),
                    Some(map) => {
                        let map = self.ids(map)?;
                        let ids: Option<Vec<u32>> = leader.iter().map(|id| map.get(*id as usize).copied()).collect();
                        Decoded::Ids(ids?)
                    }
                }
            }
            Kind::Split { order, tables, .. } => {
                let order = order.as_ref()?;
                let numbers = self.ids(order)?;
                let mut values: Vec<Vec<u32>> = vec![Vec::new(); tables.len() + 1];
                let mut rows = Vec::with_capacity(numbers.len());
                for (value, table) in numbers.iter().enumerate() {
                    let list = values.get_mut(*table as usize)?;
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

/// Texts with an LF after each.
pub(crate) fn text(raw: &[u8], rows: usize) -> Option<Decoded> {
    let mut bytes = Vec::with_capacity(raw.len() + SLACK);
    bytes.extend_from_slice(raw);
    bytes.resize(raw.len() + SLACK, 0);
    let mut starts = Vec::with_capacity(rows + 1);
    starts.push(0);
    starts.extend(memchr::memchr_iter(b'\n', raw).map(|end| end as u32 + 1));
    (starts.len() == rows + 1 && starts.last().is_some_and(|end| *end as usize == raw.len())).then_some(Decoded::Text {
        bytes,
        starts,
        gap: 1,
    })
}
