//! Running an automaton over columns: all rows go through the tree of columns side by side, part by part.
//!
//! ```text
//!   parts      took  [number]  ms for "  [path]  "          what is kept for each row is where the automaton stands
//!   row 0    s ──────► 3 ───────► 3 ──────► 7 ─────► 1
//!   row 1    s ──────► 3 ───────► 5 ──────► 0 ·
//! ```
//! As long as it stands at the same place in all rows, a literal is one step for all of them, a dictionary a step for
//! each of its values, and a column that cannot move it is not even unpacked. Few states and few values meet, so that
//! this takes a fraction of what it takes to walk the bytes of the lines.
#![deny(clippy::indexing_slicing)]

use crate::automaton::{Automaton, DEAD, MATCHED};
use crate::bits::{Bits, Rows};
use crate::decimal::{self, NUMBER_BYTES_MAX};
use crate::decode::Decoded;
use crate::fixed::Place;
use crate::open::Block;
use crate::rebuild::{Out, Source};
use crate::tree::{Kind, Part, Table};

/// Room for a value that is built to be walked, in bytes; it grows.
const VALUE_ROOM: usize = 256;

/// One row in so many must be settled for the others to go on alone while they are at several states.
const LEAVES: usize = 8;

/// Where a dictionary has so many values for each row, those of the rows are gone through in its columns. Else it takes
/// less time to have all values as texts, which are made once.
const FEW: usize = 4;

const DIGITS: &[u8] = b"0123456789";
const LOWER: &[u8] = b"0123456789abcdef";
const UPPER: &[u8] = b"0123456789ABCDEF";

/// Where the automaton stands in each row.
#[derive(Debug)]
struct Fronts {
    /// In all of them.
    one: Option<u16>,
    /// Row by row, when it is not the same in all.
    each: Vec<u16>,
    len: usize,
}

impl Fronts {
    fn all(state: u16, len: usize) -> Self {
        Self { one: Some(state), each: Vec::new(), len }
    }

    fn get(&self, at: usize) -> u16 {
        self.one.or_else(|| self.each.get(at).copied()).unwrap_or_default()
    }

    /// Row by row.
    fn each(&mut self) -> &mut [u16] {
        if let Some(state) = self.one.take() {
            self.each.clear();
            self.each.resize(self.len, state);
        }
        &mut self.each
    }

    /// Finds out whether it is the same in all rows.
    fn tidy(&mut self) {
        if self.one.is_none()
            && let Some((first, others)) = self.each.split_first()
            && others.iter().fold(0, |differ, other| differ | (other ^ first)) == 0
        {
            self.one = Some(*first);
        }
    }

    fn set_all(&mut self, state: u16) {
        self.one = Some(state);
    }

    /// Whether nothing can change any more.
    fn are_settled(&self) -> bool {
        self.one.is_some_and(|state| state <= MATCHED)
    }

    /// The states that there are.
    fn present(&self, states: usize) -> Vec<u16> {
        if let Some(state) = self.one {
            return vec![state];
        }
        let mut seen = vec![false; states];
        for state in &self.each {
            if let Some(seen) = seen.get_mut(*state as usize) {
                *seen = true;
            }
        }
        seen.iter().enumerate().filter(|(_, seen)| **seen).map(|(state, _)| state as u16).collect()
    }

    /// Those of `chosen`, which are `among` `len` rows, that stand where `test` says.
    fn rows(&self, len: usize, among: &Rows, chosen: Chosen<'_>, test: impl Fn(u16) -> bool) -> Rows {
        if let Some(state) = self.one {
            return if test(state) { among.clone() } else { Rows::None };
        }
        let Some(chosen) = chosen else {
            return Rows::by(len, |row| self.each.get(row).is_some_and(|state| test(*state)));
        };
        let mut bits = Bits::new(len);
        let tested = chosen.iter().zip(&self.each).filter(|(_, state)| test(**state));
        tested.for_each(|(row, _)| bits.set(*row as usize));
        Rows::tidy(bits)
    }

    /// Those of some rows.
    fn pick(&self, rows: &[u32]) -> Self {
        match self.one {
            Some(state) => Self::all(state, rows.len()),
            None => {
                let each = rows.iter().map(|row| self.each.get(*row as usize).copied().unwrap_or_default()).collect();
                let mut picked = Self { one: None, each, len: rows.len() };
                picked.tidy();
                picked
            }
        }
    }

    /// Puts those of some rows back.
    fn put(&mut self, rows: &[u32], fronts: &Self) {
        if self.one.is_some() && self.one == fronts.one {
            return;
        }
        let each = self.each();
        for (at, row) in rows.iter().enumerate() {
            if let Some(place) = each.get_mut(*row as usize) {
                *place = fronts.get(at);
            }
        }
    }
}

/// Rows of a table that are not settled.
struct Left {
    /// Their places among all that were chosen.
    places: Vec<u32>,
    /// The rows themselves.
    rows: Vec<u32>,
    fronts: Fronts,
}

impl Left {
    /// Those that are left of `fronts`, if it pays to go on with them alone. `places` and `chosen` are those of `fronts`.
    fn of(fronts: &Fronts, places: Option<&[u32]>, chosen: Chosen<'_>) -> Option<Self> {
        if fronts.one.is_some() {
            return None;
        }
        let open: Vec<u32> =
            fronts.each.iter().enumerate().filter(|(_, state)| **state > MATCHED).map(|(at, _)| at as u32).collect();
        if open.len() == fronts.len {
            return None;
        }
        let picked = fronts.pick(&open);
        if picked.one.is_none() && open.len() * LEAVES > fronts.len * (LEAVES - 1) {
            return None;
        }
        let of = |list: Option<&[u32]>| match list {
            None => open.clone(),
            Some(list) => open.iter().filter_map(|at| list.get(*at as usize).copied()).collect(),
        };
        Some(Self { places: of(places), rows: of(chosen), fronts: picked })
    }
}

/// Which rows of a column are gone through: all, or these.
type Chosen<'c> = Option<&'c [u32]>;

/// The row at place `at` among those that are chosen.
fn row_at(chosen: Chosen<'_>, at: usize) -> Option<usize> {
    chosen.map_or(Some(at), |rows| rows.get(at).map(|row| *row as usize))
}

impl Block {
    /// Those of some lines that the automaton accepts; `None` when the block is damaged.
    #[must_use]
    pub fn accepted(&self, automaton: &Automaton, among: &Rows) -> Option<Rows> {
        let chosen = chosen(among);
        let count = chosen.as_ref().map_or(self.rows(), Vec::len);
        let mut fronts = Fronts::all(automaton.start(), count);
        Run { block: self, automaton }.column(self.root(), chosen.as_deref(), &mut fronts)?;
        Some(fronts.rows(self.rows(), among, chosen.as_deref(), |state| automaton.accepts(state)))
    }

    /// Those of some rows of a table in which the automaton is not dead after some of its parts, where it stands at
    /// `state` before them; `None` when the block is damaged.
    pub(crate) fn not_dead(
        &self,
        automaton: &Automaton,
        state: u16,
        parts: &[Part],
        rows: usize,
        among: &Rows,
    ) -> Option<Rows> {
        let chosen = chosen(among);
        let mut fronts = Fronts::all(state, chosen.as_ref().map_or(rows, Vec::len));
        Run { block: self, automaton }.parts(parts, chosen.as_deref(), &mut fronts)?;
        Some(fronts.rows(rows, among, chosen.as_deref(), |state| state != DEAD))
    }
}

/// The rows as a list; `None` for all.
fn chosen(among: &Rows) -> Option<Vec<u32>> {
    match among {
        Rows::None => Some(Vec::new()),
        Rows::All => None,
        Rows::Some(bits) => Some(bits.iter().map(|row| row as u32).collect()),
    }
}

struct Run<'b> {
    block: &'b Block,
    automaton: &'b Automaton,
}

impl<'b> Run<'b> {
    /// Goes through the values of a column.
    fn column(&self, at: usize, chosen: Chosen<'_>, fronts: &mut Fronts) -> Option<()> {
        let node = self.block.node(at)?;
        if fronts.are_settled() || fronts.len == 0 || self.does_not_move(at, fronts)? {
            return Some(());
        }
        match node.kind {
            Kind::Same(list) => self.literal(self.block.literal(list), fronts),
            Kind::Copy(of) => return self.column(of, chosen, fronts),
            Kind::Raw(payload) if chosen.is_none() => self.text(self.block.bytes(payload)?, fronts),
            Kind::Fixed { places, .. } => match self.alike(self.block.tree.places(places), fronts) {
                Some(state) => fronts.set_all(state),
                None => self.values(&Source::of(self.block, at)?, chosen, fronts)?,
            },
            Kind::Integers(_) => {
                let Decoded::Numbers(numbers) = self.block.decoded(at)? else { return None };
                for (at, state) in fronts.each().iter_mut().enumerate() {
                    let mut digits = [0; NUMBER_BYTES_MAX];
                    let len = decimal::write(*numbers.get(row_at(chosen, at)?)? as i64, &mut digits);
                    *state = self.automaton.run(*state, digits.get(..len)?);
                }
            }
            Kind::Raw(_) => self.values(&Source::of(self.block, at)?, chosen, fronts)?,
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => {
                self.dictionary(at, values, chosen, fronts)?;
            }
            Kind::Split { order: None, tables, .. } => {
                self.table(self.block.tree.tables(tables).first()?, chosen, fronts)?;
            }
            Kind::Split { rest, tables, .. } => {
                self.tables(at, rest, self.block.tree.tables(tables), chosen, fronts)?;
            }
        }
        fronts.tidy();
        Some(())
    }

    fn table(&self, table: &Table, chosen: Chosen<'_>, fronts: &mut Fronts) -> Option<()> {
        self.parts(self.block.tree.parts(table), chosen, fronts)
    }

    /// Goes through the rows of a table, part by part. Rows that are settled are left behind: those that are not are then
    /// often all at the same state again.
    fn parts(&self, parts: &[Part], chosen: Chosen<'_>, fronts: &mut Fronts) -> Option<()> {
        let mut parts = parts.iter();
        let mut left = loop {
            let Some(part) = parts.next().filter(|_| !fronts.are_settled()) else { return Some(()) };
            self.part(part, chosen, fronts)?;
            if let Some(left) = Left::of(fronts, None, chosen) {
                break left;
            }
        };
        for part in parts {
            if left.fronts.are_settled() {
                break;
            }
            self.part(part, Some(&left.rows), &mut left.fronts)?;
            if let Some(fewer) = Left::of(&left.fronts, Some(&left.places), Some(&left.rows)) {
                fronts.put(&left.places, &left.fronts);
                left = fewer;
            }
        }
        fronts.put(&left.places, &left.fronts);
        Some(())
    }

    fn part(&self, part: &Part, chosen: Chosen<'_>, fronts: &mut Fronts) -> Option<()> {
        match part {
            Part::Literal(list) => self.literal(self.block.literal(*list), fronts),
            Part::Column(node) => self.column(*node, chosen, fronts)?,
        }
        Some(())
    }

    fn tables(
        &self,
        at: usize,
        rest: Option<usize>,
        tables: &[Table],
        chosen: Chosen<'_>,
        fronts: &mut Fronts,
    ) -> Option<()> {
        let Decoded::Order { tables: numbers, rows, values } = self.block.decoded(at)? else { return None };
        let numbers = numbers.at(self.block)?;
        let one = |number: usize, chosen: Chosen<'_>, fronts: &mut Fronts| match number.checked_sub(1) {
            None => self.column(rest?, chosen, fronts),
            Some(table) => self.table(tables.get(table)?, chosen, fronts),
        };
        let Some(chosen) = chosen else {
            for (number, list) in values.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                let mut inner = fronts.pick(list);
                one(number, None, &mut inner)?;
                fronts.put(list, &inner);
            }
            return Some(());
        };
        let mut places: Vec<u32> = (0..chosen.len() as u32).collect();
        let table_of = |place: &u32| chosen.get(*place as usize).and_then(|row| numbers.get(*row as usize));
        places.sort_by_key(table_of);
        for places in places.chunk_by(|a, b| table_of(a) == table_of(b)) {
            let inner_rows: Option<Vec<u32>> =
                places.iter().map(|place| rows.get(*chosen.get(*place as usize)? as usize).copied()).collect();
            let mut inner = fronts.pick(places);
            one(places.first().and_then(table_of)?, Some(&inner_rows?), &mut inner)?;
            fronts.put(places, &inner);
        }
        Some(())
    }

    fn literal(&self, text: &[u8], fronts: &mut Fronts) {
        if let Some(state) = fronts.one {
            return fronts.set_all(self.automaton.run(state, text));
        }
        let mut known = vec![u16::MAX; self.automaton.states()];
        for state in fronts.each() {
            if let Some(to) = known.get_mut(*state as usize) {
                if *to == u16::MAX {
                    *to = self.automaton.run(*state, text);
                }
                *state = *to;
            }
        }
        fronts.tidy();
    }

    /// Texts with an LF after each.
    fn text(&self, text: &[u8], fronts: &mut Fronts) {
        let mut from = 0;
        for state in fronts.each() {
            let rest = text.get(from..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            *state = self.automaton.run(*state, rest.get(..end).unwrap_or_default());
            from += end + 1;
        }
    }

    /// Walks the values, built where they do not lie somewhere.
    fn values(&self, source: &Source<'_>, chosen: Chosen<'_>, fronts: &mut Fronts) -> Option<()> {
        let mut out = Out::new(VALUE_ROOM);
        for (at, state) in fronts.each().iter_mut().enumerate().filter(|(_, state)| **state > MATCHED) {
            let row = row_at(chosen, at)?;
            if let Some(value) = source.get(row) {
                *state = self.automaton.run(*state, value);
                continue;
            }
            out.shrink_to(0);
            out.push_growing(self.block.text_len(), |out| source.push(row, out))?;
            *state = self.automaton.run(*state, out.text());
        }
        Some(())
    }

    fn dictionary(&self, at: usize, values: usize, chosen: Chosen<'_>, fronts: &mut Fronts) -> Option<()> {
        let distinct = self.block.node(values)?.rows;
        if let Some(state) = fronts.one.filter(|_| distinct <= fronts.len * 2) {
            let mut inner = Fronts::all(state, distinct);
            self.column(values, None, &mut inner)?;
            match inner.one {
                Some(state) => fronts.set_all(state),
                None => {
                    let ids = self.block.ids_of(at)?;
                    for (at, state) in fronts.each().iter_mut().enumerate() {
                        *state = *inner.each.get(ids.get(row_at(chosen, at)?)?)?;
                    }
                }
            }
            return Some(());
        }
        if fronts.len * FEW <= distinct {
            let ids = self.block.ids_of(at)?;
            let of_rows: Option<Vec<u32>> =
                (0..fronts.len).map(|at| ids.get(row_at(chosen, at)?).map(|id| id as u32)).collect();
            return self.column(values, Some(&of_rows?), fronts);
        }
        let present = fronts.present(self.automaton.states());
        if present.len() * distinct > fronts.len * 2 {
            return self.values(&Source::of(self.block, at)?, chosen, fronts);
        }
        // From each state, each value.
        let mut from = vec![usize::MAX; self.automaton.states()];
        let mut to: Vec<Fronts> = Vec::with_capacity(present.len());
        for state in present {
            let mut inner = Fronts::all(state, distinct);
            self.column(values, None, &mut inner)?;
            *from.get_mut(state as usize)? = to.len();
            to.push(inner);
        }
        if to.iter().all(|inner| inner.one.is_some()) {
            for state in fronts.each() {
                *state = to.get(*from.get(*state as usize)?)?.one?;
            }
            return Some(());
        }
        let ids = self.block.ids_of(at)?;
        for (at, state) in fronts.each().iter_mut().enumerate() {
            let inner = to.get(*from.get(*state as usize)?)?;
            *state = inner.get(ids.get(row_at(chosen, at)?)?);
        }
        Some(())
    }

    /// Where values of these places lead, if that is the same for all of them.
    fn alike(&self, places: &[Place], fronts: &Fronts) -> Option<u16> {
        places.iter().try_fold(fronts.one?, |state, place| match place {
            Place::Same(byte) => Some(self.automaton.step(state, *byte)),
            Place::Digit => self.automaton.step_alike(state, DIGITS),
            Place::Lower => self.automaton.step_alike(state, LOWER),
            Place::Upper => self.automaton.step_alike(state, UPPER),
        })
    }

    /// Whether no value of the column moves the automaton, as far as that is known without unpacking it.
    fn does_not_move(&self, at: usize, fronts: &Fronts) -> Option<bool> {
        let mut set = [0; 4];
        if !self.bytes_of(at, &mut set)? {
            return Some(false);
        }
        Some(match fronts.one {
            Some(state) => self.automaton.keeps(state, &set),
            None => fronts.each.iter().all(|state| self.automaton.keeps(*state, &set)),
        })
    }

    /// Adds the bytes that values of the column may have; `false` when that is not known.
    fn bytes_of(&self, at: usize, set: &mut [u64; 4]) -> Option<bool> {
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                if let Some(word) = set.get_mut(*byte as usize / 64) {
                    *word |= 1 << (byte % 64);
                }
            }
        };
        match self.block.node(at)?.kind {
            Kind::Integers(_) => {
                add(DIGITS);
                add(b"-");
            }
            Kind::Fixed { places, .. } => self.block.tree.places(places).iter().for_each(|place| match place {
                Place::Same(byte) => add(&[*byte]),
                Place::Digit => add(DIGITS),
                Place::Lower => add(LOWER),
                Place::Upper => add(UPPER),
            }),
            Kind::Copy(of) => return self.bytes_of(of, set),
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => return self.bytes_of(values, set),
            Kind::Same(_) | Kind::Raw(_) | Kind::Split { .. } => return Some(false),
        }
        Some(true)
    }
}
