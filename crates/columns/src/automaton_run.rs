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
use crate::column_block::ColumnBlock;
use crate::column_tree::{ColumnKind, TableNode, TablePart};
use crate::decimal::{self, NUMBER_BYTES_MAX};
use crate::decoded_column::DecodedColumn;
use crate::fixed_width::PatternByte;
use crate::row_set::{Bitmap, RowSet};
use crate::value_source::{BoundedBuffer, ValueSource};

/// Room for a value that is built to be walked, in bytes; it grows.
const VALUE_BUFFER_BYTES: usize = 256;

/// One row in so many must be settled for the others to go on alone while they are at several states.
const SETTLED_ROWS_DIVISOR: usize = 8;

/// Where a dictionary has so many values for each row, those of the rows are gone through in its columns. Else it takes
/// less time to have all values as texts, which are made once.
const VALUES_PER_ROW_MIN: usize = 4;

const DIGITS: &[u8] = b"0123456789";
const LOWER_HEX: &[u8] = b"0123456789abcdef";
const UPPER_HEX: &[u8] = b"0123456789ABCDEF";

/// Where the automaton stands in each row.
#[derive(Debug)]
struct RowStates {
    /// In all of them.
    common_state: Option<u16>,
    /// Row by row, when it is not the same in all.
    states: Vec<u16>,
    len: usize,
}

impl RowStates {
    fn all(state: u16, len: usize) -> Self {
        Self { common_state: Some(state), states: Vec::new(), len }
    }

    fn get(&self, at: usize) -> u16 {
        self.common_state.or_else(|| self.states.get(at).copied()).unwrap_or_default()
    }

    /// Row by row.
    fn states_mut(&mut self) -> &mut [u16] {
        if let Some(state) = self.common_state.take() {
            self.states.clear();
            self.states.resize(self.len, state);
        }
        &mut self.states
    }

    /// Finds out whether it is the same in all rows.
    fn collapse(&mut self) {
        if self.common_state.is_none()
            && let Some((first, others)) = self.states.split_first()
            && others.iter().fold(0, |differ, other| differ | (other ^ first)) == 0
        {
            self.common_state = Some(*first);
        }
    }

    fn set_all(&mut self, state: u16) {
        self.common_state = Some(state);
    }

    /// Whether nothing can change any more.
    fn is_settled(&self) -> bool {
        self.common_state.is_some_and(|state| state <= MATCHED)
    }

    /// The states that there are.
    fn distinct_states(&self, states: usize) -> Vec<u16> {
        if let Some(state) = self.common_state {
            return vec![state];
        }
        let mut seen = vec![false; states];
        for state in &self.states {
            if let Some(seen) = seen.get_mut(*state as usize) {
                *seen = true;
            }
        }
        seen.iter().enumerate().filter(|(_, seen)| **seen).map(|(state, _)| state as u16).collect()
    }

    /// Those of `chosen`, which are `among` `len` rows, that stand where `test` says.
    fn select_rows(&self, len: usize, among: &RowSet, chosen: RowSelection<'_>, test: impl Fn(u16) -> bool) -> RowSet {
        if let Some(state) = self.common_state {
            return if test(state) { among.clone() } else { RowSet::None };
        }
        let Some(chosen) = chosen else {
            return RowSet::from_fn(len, |row| self.states.get(row).is_some_and(|state| test(*state)));
        };
        let mut bits = Bitmap::new(len);
        let tested = chosen.iter().zip(&self.states).filter(|(_, state)| test(**state));
        tested.for_each(|(row, _)| bits.set(*row as usize));
        RowSet::from_bitmap(bits)
    }

    /// Those of some rows.
    fn gather(&self, rows: &[u32]) -> Self {
        match self.common_state {
            Some(state) => Self::all(state, rows.len()),
            None => {
                let each = rows.iter().map(|row| self.states.get(*row as usize).copied().unwrap_or_default()).collect();
                let mut picked = Self { common_state: None, states: each, len: rows.len() };
                picked.collapse();
                picked
            }
        }
    }

    /// Puts those of some rows back.
    fn scatter(&mut self, rows: &[u32], fronts: &Self) {
        if self.common_state.is_some() && self.common_state == fronts.common_state {
            return;
        }
        let each = self.states_mut();
        for (at, row) in rows.iter().enumerate() {
            if let Some(place) = each.get_mut(*row as usize) {
                *place = fronts.get(at);
            }
        }
    }
}

/// Rows of a table that are not settled.
struct UnsettledRows {
    /// Their places among all that were chosen.
    places: Vec<u32>,
    /// The rows themselves.
    rows: Vec<u32>,
    fronts: RowStates,
}

impl UnsettledRows {
    /// Those that are left of `fronts`, if it pays to go on with them alone. `places` and `chosen` are those of `fronts`.
    fn of(fronts: &RowStates, places: Option<&[u32]>, chosen: RowSelection<'_>) -> Option<Self> {
        if fronts.common_state.is_some() {
            return None;
        }
        let open: Vec<u32> =
            fronts.states.iter().enumerate().filter(|(_, state)| **state > MATCHED).map(|(at, _)| at as u32).collect();
        if open.len() == fronts.len {
            return None;
        }
        let picked = fronts.gather(&open);
        if picked.common_state.is_none() && open.len() * SETTLED_ROWS_DIVISOR > fronts.len * (SETTLED_ROWS_DIVISOR - 1)
        {
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
type RowSelection<'c> = Option<&'c [u32]>;

/// The row at place `at` among those that are chosen.
fn selected_row(chosen: RowSelection<'_>, at: usize) -> Option<usize> {
    chosen.map_or(Some(at), |rows| rows.get(at).map(|row| *row as usize))
}

impl ColumnBlock {
    /// Those of some lines that the automaton accepts; `None` when the block is damaged.
    #[must_use]
    pub fn find_accepted(&self, automaton: &Automaton, among: &RowSet) -> Option<RowSet> {
        let chosen = selected_rows(among);
        let count = chosen.as_ref().map_or(self.rows(), Vec::len);
        let mut fronts = RowStates::all(automaton.start(), count);
        AutomatonRun { block: self, automaton }.run_column(self.root(), chosen.as_deref(), &mut fronts)?;
        Some(fronts.select_rows(self.rows(), among, chosen.as_deref(), |state| automaton.accepts(state)))
    }

    /// Those of some rows of a table in which the automaton is not dead after some of its parts, where it stands at
    /// `state` before them; `None` when the block is damaged.
    pub(crate) fn find_not_dead(
        &self,
        automaton: &Automaton,
        state: u16,
        parts: &[TablePart],
        rows: usize,
        among: &RowSet,
    ) -> Option<RowSet> {
        let chosen = selected_rows(among);
        let mut fronts = RowStates::all(state, chosen.as_ref().map_or(rows, Vec::len));
        AutomatonRun { block: self, automaton }.run_parts(parts, chosen.as_deref(), &mut fronts)?;
        Some(fronts.select_rows(rows, among, chosen.as_deref(), |state| state != DEAD))
    }
}

/// The rows as a list; `None` for all.
fn selected_rows(among: &RowSet) -> Option<Vec<u32>> {
    match among {
        RowSet::None => Some(Vec::new()),
        RowSet::All => None,
        RowSet::Some(bits) => Some(bits.iter().map(|row| row as u32).collect()),
    }
}

struct AutomatonRun<'b> {
    block: &'b ColumnBlock,
    automaton: &'b Automaton,
}

impl<'b> AutomatonRun<'b> {
    /// Goes through the values of a column.
    fn run_column(&self, at: usize, chosen: RowSelection<'_>, fronts: &mut RowStates) -> Option<()> {
        let node = self.block.node(at)?;
        if fronts.is_settled() || fronts.len == 0 || self.keeps_states(at, fronts)? {
            return Some(());
        }
        match node.kind {
            ColumnKind::Constant(list) => self.run_literal(self.block.literal(list), fronts),
            ColumnKind::Copy(of) => return self.run_column(of, chosen, fronts),
            ColumnKind::Raw(payload) if chosen.is_none() => self.run_raw_texts(self.block.bytes(payload)?, fronts),
            ColumnKind::Fixed { pattern, .. } => {
                match self.common_pattern_state(self.block.tree.pattern(pattern), fronts) {
                    Some(state) => fronts.set_all(state),
                    None => self.run_values(&ValueSource::of(self.block, at)?, chosen, fronts)?,
                }
            }
            ColumnKind::Integers(_) => {
                let DecodedColumn::Numbers(numbers) = self.block.decoded_column(at)? else { return None };
                for (at, state) in fronts.states_mut().iter_mut().enumerate() {
                    let mut digits = [0; NUMBER_BYTES_MAX];
                    let len = decimal::write(*numbers.get(selected_row(chosen, at)?)? as i64, &mut digits);
                    *state = self.automaton.run(*state, digits.get(..len)?);
                }
            }
            ColumnKind::Raw(_) => self.run_values(&ValueSource::of(self.block, at)?, chosen, fronts)?,
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                self.run_dictionary(at, values, chosen, fronts)?;
            }
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                self.run_table(self.block.tree.tables(tables).first()?, chosen, fronts)?;
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                self.run_tables(at, outliers, self.block.tree.tables(tables), chosen, fronts)?;
            }
        }
        fronts.collapse();
        Some(())
    }

    fn run_table(&self, table: &TableNode, chosen: RowSelection<'_>, fronts: &mut RowStates) -> Option<()> {
        self.run_parts(self.block.tree.parts(table), chosen, fronts)
    }

    /// Goes through the rows of a table, part by part. settled rows are dropped: those that are not are then
    /// often all at the same state again.
    fn run_parts(&self, parts: &[TablePart], chosen: RowSelection<'_>, fronts: &mut RowStates) -> Option<()> {
        let mut parts = parts.iter();
        let mut left = loop {
            let Some(part) = parts.next().filter(|_| !fronts.is_settled()) else { return Some(()) };
            self.run_part(part, chosen, fronts)?;
            if let Some(left) = UnsettledRows::of(fronts, None, chosen) {
                break left;
            }
        };
        for part in parts {
            if left.fronts.is_settled() {
                break;
            }
            self.run_part(part, Some(&left.rows), &mut left.fronts)?;
            if let Some(fewer) = UnsettledRows::of(&left.fronts, Some(&left.places), Some(&left.rows)) {
                fronts.scatter(&left.places, &left.fronts);
                left = fewer;
            }
        }
        fronts.scatter(&left.places, &left.fronts);
        Some(())
    }

    fn run_part(&self, part: &TablePart, chosen: RowSelection<'_>, fronts: &mut RowStates) -> Option<()> {
        match part {
            TablePart::Literal(list) => self.run_literal(self.block.literal(*list), fronts),
            TablePart::Column(node) => self.run_column(*node, chosen, fronts)?,
        }
        Some(())
    }

    fn run_tables(
        &self,
        at: usize,
        rest: Option<usize>,
        tables: &[TableNode],
        chosen: RowSelection<'_>,
        fronts: &mut RowStates,
    ) -> Option<()> {
        let DecodedColumn::TableRows { table_ids: numbers, table_rows: rows, table_values: values } =
            self.block.decoded_column(at)?
        else {
            return None;
        };
        let numbers = numbers.resolve(self.block)?;
        let one = |number: usize, chosen: RowSelection<'_>, fronts: &mut RowStates| match number.checked_sub(1) {
            None => self.run_column(rest?, chosen, fronts),
            Some(table) => self.run_table(tables.get(table)?, chosen, fronts),
        };
        let Some(chosen) = chosen else {
            for (number, list) in values.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                let mut inner = fronts.gather(list);
                one(number, None, &mut inner)?;
                fronts.scatter(list, &inner);
            }
            return Some(());
        };
        let mut places: Vec<u32> = (0..chosen.len() as u32).collect();
        let table_of = |place: &u32| chosen.get(*place as usize).and_then(|row| numbers.get(*row as usize));
        places.sort_by_key(table_of);
        for places in places.chunk_by(|a, b| table_of(a) == table_of(b)) {
            let inner_rows: Option<Vec<u32>> =
                places.iter().map(|place| rows.get(*chosen.get(*place as usize)? as usize).copied()).collect();
            let mut inner = fronts.gather(places);
            one(places.first().and_then(table_of)?, Some(&inner_rows?), &mut inner)?;
            fronts.scatter(places, &inner);
        }
        Some(())
    }

    fn run_literal(&self, text: &[u8], fronts: &mut RowStates) {
        if let Some(state) = fronts.common_state {
            return fronts.set_all(self.automaton.run(state, text));
        }
        let mut known = vec![u16::MAX; self.automaton.state_count()];
        for state in fronts.states_mut() {
            if let Some(to) = known.get_mut(*state as usize) {
                if *to == u16::MAX {
                    *to = self.automaton.run(*state, text);
                }
                *state = *to;
            }
        }
        fronts.collapse();
    }

    /// Texts with an LF after each.
    fn run_raw_texts(&self, text: &[u8], fronts: &mut RowStates) {
        let mut from = 0;
        for state in fronts.states_mut() {
            let rest = text.get(from..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            *state = self.automaton.run(*state, rest.get(..end).unwrap_or_default());
            from += end + 1;
        }
    }

    /// Walks the values, built where they do not lie somewhere.
    fn run_values(&self, source: &ValueSource<'_>, chosen: RowSelection<'_>, fronts: &mut RowStates) -> Option<()> {
        let mut out = BoundedBuffer::new(VALUE_BUFFER_BYTES);
        for (at, state) in fronts.states_mut().iter_mut().enumerate().filter(|(_, state)| **state > MATCHED) {
            let row = selected_row(chosen, at)?;
            if let Some(value) = source.get(row) {
                *state = self.automaton.run(*state, value);
                continue;
            }
            out.truncate(0);
            out.push_growing(self.block.text_len(), |out| source.push(row, out))?;
            *state = self.automaton.run(*state, out.text());
        }
        Some(())
    }

    fn run_dictionary(&self, at: usize, values: usize, chosen: RowSelection<'_>, fronts: &mut RowStates) -> Option<()> {
        let distinct = self.block.node(values)?.rows;
        if let Some(state) = fronts.common_state.filter(|_| distinct <= fronts.len * 2) {
            let mut inner = RowStates::all(state, distinct);
            self.run_column(values, None, &mut inner)?;
            match inner.common_state {
                Some(state) => fronts.set_all(state),
                None => {
                    let ids = self.block.codes_of(at)?;
                    for (at, state) in fronts.states_mut().iter_mut().enumerate() {
                        *state = *inner.states.get(ids.get(selected_row(chosen, at)?)?)?;
                    }
                }
            }
            return Some(());
        }
        if fronts.len * VALUES_PER_ROW_MIN <= distinct {
            let ids = self.block.codes_of(at)?;
            let of_rows: Option<Vec<u32>> =
                (0..fronts.len).map(|at| ids.get(selected_row(chosen, at)?).map(|id| id as u32)).collect();
            return self.run_column(values, Some(&of_rows?), fronts);
        }
        let present = fronts.distinct_states(self.automaton.state_count());
        if present.len() * distinct > fronts.len * 2 {
            return self.run_values(&ValueSource::of(self.block, at)?, chosen, fronts);
        }
        // From each state, each value.
        let mut from = vec![usize::MAX; self.automaton.state_count()];
        let mut to: Vec<RowStates> = Vec::with_capacity(present.len());
        for state in present {
            let mut inner = RowStates::all(state, distinct);
            self.run_column(values, None, &mut inner)?;
            *from.get_mut(state as usize)? = to.len();
            to.push(inner);
        }
        if to.iter().all(|inner| inner.common_state.is_some()) {
            for state in fronts.states_mut() {
                *state = to.get(*from.get(*state as usize)?)?.common_state?;
            }
            return Some(());
        }
        let ids = self.block.codes_of(at)?;
        for (at, state) in fronts.states_mut().iter_mut().enumerate() {
            let inner = to.get(*from.get(*state as usize)?)?;
            *state = inner.get(ids.get(selected_row(chosen, at)?)?);
        }
        Some(())
    }

    /// Where values of these places lead, if that is the same for all of them.
    fn common_pattern_state(&self, places: &[PatternByte], fronts: &RowStates) -> Option<u16> {
        places.iter().try_fold(fronts.common_state?, |state, place| match place {
            PatternByte::Literal(byte) => Some(self.automaton.step(state, *byte)),
            PatternByte::Digit => self.automaton.common_step(state, DIGITS),
            PatternByte::LowerHex => self.automaton.common_step(state, LOWER_HEX),
            PatternByte::UpperHex => self.automaton.common_step(state, UPPER_HEX),
        })
    }

    /// Whether no value of the column moves the automaton, as far as that is known without unpacking it.
    fn keeps_states(&self, at: usize, fronts: &RowStates) -> Option<bool> {
        let mut set = [0; 4];
        if !self.add_possible_bytes(at, &mut set)? {
            return Some(false);
        }
        Some(match fronts.common_state {
            Some(state) => self.automaton.stays_on(state, &set),
            None => fronts.states.iter().all(|state| self.automaton.stays_on(*state, &set)),
        })
    }

    /// Adds the bytes that values of the column may have; `false` when that is not known.
    fn add_possible_bytes(&self, at: usize, set: &mut [u64; 4]) -> Option<bool> {
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                if let Some(word) = set.get_mut(*byte as usize / 64) {
                    *word |= 1 << (byte % 64);
                }
            }
        };
        match self.block.node(at)?.kind {
            ColumnKind::Integers(_) => {
                add(DIGITS);
                add(b"-");
            }
            ColumnKind::Fixed { pattern, .. } => {
                self.block.tree.pattern(pattern).iter().for_each(|place| match place {
                    PatternByte::Literal(byte) => add(&[*byte]),
                    PatternByte::Digit => add(DIGITS),
                    PatternByte::LowerHex => add(LOWER_HEX),
                    PatternByte::UpperHex => add(UPPER_HEX),
                });
            }
            ColumnKind::Copy(of) => return self.add_possible_bytes(of, set),
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                return self.add_possible_bytes(values, set);
            }
            ColumnKind::Constant(_) | ColumnKind::Raw(_) | ColumnKind::Tables { .. } => return Some(false),
        }
        Some(true)
    }
}
