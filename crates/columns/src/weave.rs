//! Lines from columns: some lines at a time, and these column by column.
//!
//! First it is measured how long each line is, then every column puts its values where they belong, and with each what stands
//! behind all of them. To build a line after the other, value by value, takes twice as long and more: each value is then
//! another kind of column, somewhere else in memory; here that is settled once for a column and many lines.
//!
//! Values are copied as pieces of fixed size, which write over what is behind them. So they are put from the start of a
//! line to its end, and behind each line is room.
//!
//! Invariant: there is never more text at once than the block says that it has.
#![deny(clippy::indexing_slicing)]

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use crate::decimal;
use crate::decode::{Decoded, Texts, TextsAt};
use crate::join::{Joined, Tail};
use crate::open::{Block, SLACK};
use crate::parting::Partings;
use crate::spell::ROOM;
use crate::tree::{Kind, List, Part, Table};

/// Text that is put together at a time, in bytes, about. Every column that has some of the rows has to be looked up, however
/// few they are, and of most it is one or two: of long lines with a hundred columns, a third as many rows at a time takes an
/// eighth longer, although the text of so many stays in nearer caches.
const WINDOW_BYTES: usize = 1_792 << 10;

/// Rows that are put together at a time, at least.
const ROWS_MIN: usize = 512;

/// Rows that are put together at a time, at most.
const ROWS_MAX: usize = 2_048;

/// Room for text, in bytes, at most, but for a single line that takes more. A thread keeps it from one block to the next: new
/// memory has to be cleared, by the operating system and by us, which for a few lines of a block is much of the work.
const ROOM_MAX: usize = 2 << 20;

thread_local! {
    static KEPT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Puts values together.
pub(crate) struct Weave<'b> {
    block: &'b Block,
    /// Bytes that may still be given.
    left: usize,
    text: Vec<u8>,
    partings: Partings,
    /// By column: its values with the text that follows all of them.
    joined: Vec<Joined<'b>>,
    /// Lists that were used.
    spare: Vec<Vec<u32>>,
}

impl Drop for Weave<'_> {
    fn drop(&mut self) {
        if self.text.len() <= ROOM_MAX {
            // Where the thread ends, there is no place for it.
            let _ = KEPT.try_with(|kept| kept.replace(std::mem::take(&mut self.text)));
        }
    }
}

impl<'b> Weave<'b> {
    pub(crate) fn new(block: &'b Block) -> Self {
        let mut joined = Vec::new();
        joined.resize_with(block.tree.len(), Joined::default);
        Self {
            block,
            left: block.text_len(),
            text: KEPT.take(),
            partings: Partings::default(),
            joined,
            spare: Vec::new(),
        }
    }

    /// Hands over values of a column, each with `behind` after it, until `each` has enough.
    pub(crate) fn each(
        &mut self,
        at: usize,
        mut rows: impl Iterator<Item = usize>,
        behind: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        let usual = self.block.text_len() / self.block.rows().max(1) + 1;
        let count = (WINDOW_BYTES / (usual + ROOM)).clamp(ROWS_MIN, ROWS_MAX);
        let there = self.block.node(at)?.rows;
        let mut some = Vec::with_capacity(count.min(rows.size_hint().1.unwrap_or(count)));
        loop {
            some.clear();
            some.extend(rows.by_ref().take(count).map(|row| row as u32));
            if some.iter().any(|row| *row as usize >= there) {
                return None;
            }
            if some.is_empty() {
                return Some(());
            }
            if self.some(at, &some, behind, each)?.is_break() {
                return Some(());
            }
        }
    }

    fn some(
        &mut self,
        at: usize,
        rows: &[u32],
        behind: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        self.partings.begin();
        let lens = self.lengths(at, rows, behind.len() as u32)?;
        let bytes: usize = lens.iter().map(|len| *len as usize).sum();
        if bytes > self.left {
            return None;
        }
        let room = bytes + rows.len() * ROOM;
        if let (true, Some((first, last))) = (room > ROOM_MAX, rows.split_at_checked(rows.len() / 2))
            && !first.is_empty()
        {
            // Some of them are much longer than others.
            self.spare.push(lens);
            return match self.some(at, first, behind, each)? {
                ControlFlow::Continue(()) => self.some(at, last, behind, each),
                enough => Some(enough),
            };
        }
        self.left -= bytes;
        u32::try_from(room).ok()?;
        if self.text.len() < room {
            self.text.resize(room, 0);
        }
        let mut places = self.list();
        let mut next = 0;
        for len in &lens {
            places.push(next);
            next += len + ROOM as u32;
        }
        self.partings.again();
        self.put(at, rows, &mut places, Tail::default())?;
        let mut start = 0;
        for (len, place) in lens.iter().zip(&places) {
            let (end, place) = (start + *len as usize, *place as usize);
            let value = self.text.get_mut(start..end)?;
            let rest = value.get_mut(place.checked_sub(start)?..)?;
            (rest.len() == behind.len()).then(|| rest.copy_from_slice(behind))?;
            if each(value).is_break() {
                return Some(ControlFlow::Break(()));
            }
            start = end + ROOM;
        }
        self.spare.extend([lens, places]);
        Some(ControlFlow::Continue(()))
    }

    fn list(&mut self) -> Vec<u32> {
        let mut list = self.spare.pop().unwrap_or_default();
        list.clear();
        list
    }

    /// The length of each value and what is behind it. Those of lines are kept: to measure them is an eighth of the work.
    fn lengths(&mut self, at: usize, rows: &[u32], behind: u32) -> Option<Vec<u32>> {
        let known = if at == self.block.root() { self.block.lengths() } else { &[] };
        let mut lens = self.list();
        lens.extend(rows.iter().map_while(|row| known.get(*row as usize)).map(|len| len.load(Ordering::Relaxed)));
        if lens.len() == rows.len() && !lens.contains(&0) {
            lens.iter_mut().for_each(|len| *len = (*len - 1).wrapping_add(behind));
            return Some(lens);
        }
        lens.clear();
        lens.resize(rows.len(), 0);
        let all = self.measure(at, rows, &mut lens)?;
        for (row, len) in rows.iter().zip(&mut lens) {
            *len = len.wrapping_add(all);
            known.get(*row as usize).inspect(|known| known.store(len.wrapping_add(1), Ordering::Relaxed));
            *len = len.wrapping_add(behind);
        }
        Some(lens)
    }

    /// Adds the lengths of values to those of their lines, but for what all of them have, which it returns.
    fn measure(&mut self, at: usize, rows: &[u32], lens: &mut [u32]) -> Option<u32> {
        let block = self.block;
        match block.node(at)?.kind {
            Kind::Same(list) => return Some(length(list)),
            Kind::Copy(of) => return self.measure(of, rows, lens),
            Kind::Raw(payload) => {
                let texts = block.raw_texts(at, payload)?;
                for (row, len) in rows.iter().zip(lens) {
                    *len = len.wrapping_add(texts.range(*row as usize)?.1 as u32);
                }
            }
            Kind::Integers(_) => {
                let Decoded::Numbers(numbers) = block.decoded(at)? else { return None };
                for (row, len) in rows.iter().zip(lens) {
                    *len = len.wrapping_add(decimal::length(*numbers.get(*row as usize)? as i64) as u32);
                }
            }
            Kind::Fixed { places, .. } => return Some(length(places)),
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => {
                let (ids, texts) = (block.ids_of(at)?, block.values_of(at, values)?);
                for (row, len) in rows.iter().zip(lens) {
                    *len = len.wrapping_add(texts.range(ids.get(*row as usize)?)?.1 as u32);
                }
            }
            Kind::Split { order: None, tables, .. } => {
                return self.measure_table(block.tree.tables(tables).first()?, rows, lens);
            }
            Kind::Split { rest, tables, .. } => {
                let Decoded::Order { tables: numbers, rows: inner, .. } = block.decoded(at)? else { return None };
                let tables = block.tree.tables(tables);
                let parting = self.partings.next(rows, numbers.at(block)?, inner, tables.len() + 1)?;
                let mut of_some = self.list();
                for (table, order, rows) in parting.1.parts() {
                    of_some.clear();
                    of_some.resize(rows.len(), 0);
                    let all = match table.checked_sub(1) {
                        None => self.measure(rest?, rows, &mut of_some)?,
                        Some(table) => self.measure_table(tables.get(table as usize)?, rows, &mut of_some)?,
                    };
                    for (at, more) in order.iter().zip(&of_some) {
                        let len = lens.get_mut(*at as usize)?;
                        *len = len.wrapping_add(*more).wrapping_add(all);
                    }
                }
                self.spare.push(of_some);
                self.partings.give_back(parting);
            }
        }
        Some(0)
    }

    fn measure_table(&mut self, table: &Table, rows: &[u32], lens: &mut [u32]) -> Option<u32> {
        let mut all = 0_u32;
        for part in self.block.tree.parts(table) {
            all = all.wrapping_add(match part {
                Part::Literal(list) => length(*list),
                Part::Column(node) => self.measure(*node, rows, lens)?,
            });
        }
        Some(all)
    }

    /// Puts values where `places` says, behind each the same text, and moves the places behind that.
    fn put(&mut self, at: usize, rows: &[u32], places: &mut [u32], tail: Tail<'b>) -> Option<()> {
        let block = self.block;
        let of = match block.node(at)?.kind {
            Kind::Copy(of) => of,
            _ => at,
        };
        match block.node(of)?.kind {
            Kind::Same(list) => {
                self.put_literal(list, places)?;
                self.put_tail(tail, places)
            }
            Kind::Raw(payload) => {
                let texts = block.raw_texts(of, payload)?;
                put_texts(&mut self.text, &texts, rows.iter().map(|row| Some(*row as usize)), places, tail)
            }
            Kind::Integers(_) => {
                let Decoded::Numbers(numbers) = block.decoded(of)? else { return None };
                let text = self.text.as_mut_slice();
                for (row, place) in rows.iter().zip(places) {
                    let room: &mut [u8; ROOM] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
                    *place = place.wrapping_add(decimal::write(*numbers.get(*row as usize)? as i64, room) as u32);
                    tail.put(text, place)?;
                }
                Some(())
            }
            Kind::Fixed { .. } => {
                let (speller, tail) = self.joined.get_mut(at)?.speller(block, of, tail)?;
                let text = self.text.as_mut_slice();
                for (row, place) in rows.iter().zip(&mut *places) {
                    let room: &mut [u8; ROOM] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
                    *place = place.wrapping_add(speller.write(*row as usize, room)? as u32);
                }
                self.put_tail(tail, places)
            }
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => {
                let ids = block.ids_of(of)?;
                let text = self.text.as_mut_slice();
                let Some(texts) = self.joined.get_mut(at)?.texts(block, of, rows.len(), tail)? else {
                    let texts = block.values_of(of, values)?;
                    return put_texts(text, &texts, rows.iter().map(|row| ids.get(*row as usize)), places, tail);
                };
                for (row, place) in rows.iter().zip(places) {
                    let (joined, len) = texts.get(ids.get(*row as usize)?)?;
                    let to: &mut [u8; SLACK] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
                    *to = *joined;
                    *place = place.wrapping_add(*len);
                }
                Some(())
            }
            Kind::Copy(_) => None,
            Kind::Split { order: None, tables, .. } => {
                self.put_table(block.tree.tables(tables).first()?, rows, places)?;
                self.put_tail(tail, places)
            }
            Kind::Split { rest, tables, .. } => {
                let Decoded::Order { tables: numbers, rows: inner, .. } = block.decoded(of)? else { return None };
                let tables = block.tree.tables(tables);
                let parting = self.partings.next(rows, numbers.at(block)?, inner, tables.len() + 1)?;
                let mut of_some = self.list();
                for (table, order, rows) in parting.1.parts() {
                    of_some.clear();
                    for at in order {
                        of_some.push(*places.get(*at as usize)?);
                    }
                    match table.checked_sub(1) {
                        None => self.put(rest?, rows, &mut of_some, Tail::default())?,
                        Some(table) => self.put_table(tables.get(table as usize)?, rows, &mut of_some)?,
                    }
                    for (at, place) in order.iter().zip(&of_some) {
                        *places.get_mut(*at as usize)? = *place;
                    }
                }
                self.spare.push(of_some);
                self.partings.give_back(parting);
                self.put_tail(tail, places)
            }
        }
    }

    fn put_table(&mut self, table: &Table, rows: &[u32], places: &mut [u32]) -> Option<()> {
        let mut parts = self.block.tree.parts(table).iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Literal(list) => self.put_literal(*list, places)?,
                Part::Column(node) => {
                    let tail = match parts.peek() {
                        Some(Part::Literal(list)) => Tail::of(self.block, *list),
                        _ => None,
                    };
                    parts.next_if(|_| tail.is_some());
                    self.put(*node, rows, places, tail.unwrap_or_default())?;
                }
            }
        }
        Some(())
    }

    fn put_tail(&mut self, tail: Tail<'_>, places: &mut [u32]) -> Option<()> {
        if tail.is_empty() {
            return Some(());
        }
        places.iter_mut().try_for_each(|place| tail.put(&mut self.text, place))
    }

    fn put_literal(&mut self, list: List, places: &mut [u32]) -> Option<()> {
        if let Some(short) = Tail::of(self.block, list) {
            return self.put_tail(short, places);
        }
        let source = self.block.literals_on(list.bounds().0)?;
        places.iter_mut().try_for_each(|place| copy(&mut self.text, source, 0, length(list) as usize, place))
    }
}

fn length(list: List) -> u32 {
    let (start, end) = list.bounds();
    (end - start) as u32
}

#[inline]
fn put_texts(
    text: &mut [u8],
    texts: &TextsAt<'_>,
    which: impl Iterator<Item = Option<usize>>,
    places: &mut [u32],
    tail: Tail<'_>,
) -> Option<()> {
    for (which, place) in which.zip(places) {
        let (start, len) = texts.range(which?)?;
        copy(text, texts.bytes, start, len, place)?;
        tail.put(text, place)?;
    }
    Some(())
}

/// `source` has [`SLACK`] bytes behind what is copied.
#[inline]
fn copy(text: &mut [u8], source: &[u8], start: usize, len: usize, place: &mut u32) -> Option<()> {
    let at = *place as usize;
    if len <= SLACK {
        let from: &[u8; SLACK] = source.get(start..)?.first_chunk()?;
        let to: &mut [u8; SLACK] = text.get_mut(at..)?.first_chunk_mut()?;
        *to = *from;
    } else {
        let whole = len.next_multiple_of(SLACK);
        let (from, _) = source.get(start..start + whole)?.as_chunks::<SLACK>();
        let (to, _) = text.get_mut(at..at + whole)?.as_chunks_mut::<SLACK>();
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    *place = place.wrapping_add(len as u32);
    Some(())
}

/// All values of a column, and [`SLACK`] bytes behind them.
pub(crate) fn texts(block: &Block, at: usize) -> Option<Texts> {
    let rows = block.node(at)?.rows;
    let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(rows + 1));
    starts.push(0);
    Weave::new(block).each(at, 0..rows, b"", &mut |value| {
        bytes.extend_from_slice(value);
        starts.push(bytes.len() as u32);
        ControlFlow::Continue(())
    })?;
    bytes.resize(bytes.len() + SLACK, 0);
    Some(Texts { bytes, starts })
}

impl Block {
    /// All lines, an LF after each; `None` when the block is damaged.
    #[must_use]
    pub fn text(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.text_len());
        self.each_line(0..self.rows(), &mut |line| {
            out.extend_from_slice(line);
            ControlFlow::Continue(())
        })?;
        (out.len() == self.text_len()).then_some(out)
    }

    /// Hands over some of the lines, given by rising rows, each with an LF, until `each` has enough; `None` when the block
    /// is damaged. Some may have been handed over by then.
    pub fn each_line(
        &self,
        rows: impl Iterator<Item = usize>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        Weave::new(self).each(self.root(), rows, b"\n", each)
    }
}
