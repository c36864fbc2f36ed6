//! Rows of a column of several tables, parted by table.
#![deny(clippy::indexing_slicing)]

use crate::ids::IdsAt;

/// Some rows by table.
#[derive(Default)]
pub(crate) struct Parting {
    /// Which of the rows, table by table and rising within each.
    order: Vec<u32>,
    /// The rows in their tables, in that order.
    rows: Vec<u32>,
    /// Each table of which there are rows, and where these end in that order.
    ends: Vec<(u32, u32)>,
}

impl Parting {
    /// Parts rows, of which each is the row in `inner` of the table in `tables`. All of `counts` are 0, before and after.
    pub(crate) fn part(&mut self, rows: &[u32], tables: IdsAt<'_>, inner: &[u32], counts: &mut [u32]) -> Option<()> {
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
        self.order.resize(rows.len(), 0);
        self.rows.resize(rows.len(), 0);
        for (at, row) in rows.iter().enumerate() {
            let place = counts.get_mut(tables.get(*row as usize)?)?;
            *self.order.get_mut(*place as usize)? = at as u32;
            *self.rows.get_mut(*place as usize)? = *inner.get(*row as usize)?;
            *place += 1;
        }
        for (table, _) in &self.ends {
            *counts.get_mut(*table as usize)? = 0;
        }
        Some(())
    }

    /// Each table of which there are rows, which of the rows these are, and which rows of the table.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u32, &[u32], &[u32])> {
        let (mut order, mut rows) = (self.order.as_slice(), self.rows.as_slice());
        let mut from = 0;
        self.ends.iter().map_while(move |(table, end)| {
            let count = (end - std::mem::replace(&mut from, *end)) as usize;
            Some((*table, order.split_off(..count)?, rows.split_off(..count)?))
        })
    }
}

/// Partings that are asked for twice, in the same order: when it is measured, and when it is put together.
#[derive(Default)]
pub(crate) struct Partings {
    all: Vec<Parting>,
    /// How many were made.
    made: usize,
    next: usize,
    counts: Vec<u32>,
}

impl Partings {
    /// Forgets all.
    pub(crate) fn begin(&mut self) {
        (self.made, self.next) = (0, 0);
    }

    /// Goes back to the first.
    pub(crate) fn again(&mut self) {
        self.next = 0;
    }

    /// The next parting, which was made before or is made now; to be given back to this place.
    pub(crate) fn next(
        &mut self,
        rows: &[u32],
        tables: IdsAt<'_>,
        inner: &[u32],
        table_count: usize,
    ) -> Option<(usize, Parting)> {
        let at = self.next;
        self.next += 1;
        if self.all.len() <= at {
            self.all.resize_with(at + 1, Parting::default);
        }
        let mut parting = std::mem::take(self.all.get_mut(at)?);
        if at >= self.made {
            self.made = self.next;
            if self.counts.len() < table_count {
                self.counts.resize(table_count, 0);
            }
            parting.part(rows, tables, inner, &mut self.counts)?;
        }
        Some((at, parting))
    }

    pub(crate) fn give_back(&mut self, (at, parting): (usize, Parting)) {
        if let Some(place) = self.all.get_mut(at) {
            *place = parting;
        }
    }
}
