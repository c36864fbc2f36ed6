//! Runs an automaton over columns: all rows in parallel, part by part of the tree.
//!
//! ```text
//!   parts      took  [number]  ms for "  [path]  "          one state per row
//!   row 0    s ──────► 3 ───────► 3 ──────► 7 ─────► 1
//!   row 1    s ──────► 3 ───────► 5 ──────► 0 ·
//! ```
//! While all rows are in one state, a literal is run once for all rows, and a dictionary once per distinct value. A
//! column is not decoded if none of its possible bytes changes the state. Few states meet few values, so a run takes a
//! fraction of the time that the bytes of the lines would take.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::{Automaton, CancelPoll, DEAD, MATCHED, RowSet};

use crate::decimal::{self, NUMBER_BYTES_MAX};
use crate::decode::column_block::ColumnBlock;
use crate::decode::column_tree::{ColumnKind, TableNode, TablePart};
use crate::decode::decoded_column::DecodedColumn;
use crate::decode::value_source::{BoundedBuffer, ValueSource};
use crate::fixed_width::PatternByte;
use crate::search::row_states::{RowSelection, RowStates, UnsettledRows, selected_row, selected_rows};
use crate::search_work;

/// The initial size of the buffer for a value that is built to be run over, in bytes.
const VALUE_BUFFER_BYTES: usize = 256;

/// With at least this many distinct values per row, the run goes through the columns of the values that the rows have.
/// Otherwise building all values as texts once is cheaper.
const VALUES_PER_ROW_MIN: usize = 4;

const DIGITS: &[u8] = b"0123456789";
const LOWER_HEX: &[u8] = b"0123456789abcdef";
const UPPER_HEX: &[u8] = b"0123456789ABCDEF";

/// A block and an automaton that runs over it.
pub(crate) struct AutomatonRun<'b> {
    block: &'b ColumnBlock,
    automaton: &'b Automaton,
    cancel: &'b CancelPoll<'b>,
}

impl<'b> AutomatonRun<'b> {
    pub(crate) fn new(block: &'b ColumnBlock, automaton: &'b Automaton, cancel: &'b CancelPoll<'b>) -> Self {
        Self { block, automaton, cancel }
    }

    /// The rows of `among` that the automaton accepts; `None` if the block is damaged.
    pub(crate) fn find_accepted(&self, among: &RowSet) -> Option<RowSet> {
        let selected = selected_rows(among);
        let count = selected.as_ref().map_or(self.block.rows(), Vec::len);
        let mut states = RowStates::all(self.automaton.start(), count);
        self.run_column(self.block.root(), selected.as_deref(), &mut states)?;
        let accepts = |state| self.automaton.accepts(state);
        Some(states.select_rows(self.block.rows(), among, selected.as_deref(), accepts))
    }

    /// The rows of `among`, of `rows` in a table, in which the automaton is not dead after `parts`; it is in `state` before
    /// them. `None` if the block is damaged.
    pub(crate) fn find_not_dead(&self, state: u16, parts: &[TablePart], rows: usize, among: &RowSet) -> Option<RowSet> {
        let selected = selected_rows(among);
        let mut states = RowStates::all(state, selected.as_ref().map_or(rows, Vec::len));
        self.run_parts(parts, selected.as_deref(), &mut states)?;
        Some(states.select_rows(rows, among, selected.as_deref(), |state| state != DEAD))
    }

    /// Runs over the values of a column.
    fn run_column(&self, at: usize, selected: RowSelection<'_>, states: &mut RowStates) -> Option<()> {
        let node = self.block.node(at)?;
        let apart = if states.common_state.is_none() { states.len as u64 } else { 0 };
        self.block.add_work(search_work::VISIT + apart * search_work::ROW);
        if states.is_settled() || states.len == 0 || self.keeps_states(at, states)? {
            return Some(());
        }
        match node.kind {
            ColumnKind::Constant(list) => self.run_literal(self.block.literal(list), states),
            ColumnKind::Copy(of) => return self.run_column(of, selected, states),
            ColumnKind::Raw(payload) if selected.is_none() => self.run_raw_texts(self.block.bytes(payload)?, states),
            ColumnKind::Fixed { pattern, .. } => {
                match self.common_pattern_state(self.block.tree.pattern(pattern), states) {
                    Some(state) => states.set_all(state),
                    None => self.run_values(&ValueSource::of(self.block, at)?, selected, states)?,
                }
            }
            ColumnKind::Integers(_) => {
                let DecodedColumn::Numbers(numbers) = self.block.decoded_column(at)? else { return None };
                self.block.add_work(states.len as u64 * search_work::RUN_VALUE);
                for (at, state) in states.states_mut().iter_mut().enumerate() {
                    let mut digits = [0; NUMBER_BYTES_MAX];
                    let len = decimal::write(numbers.get(selected_row(selected, at)?)? as i64, &mut digits);
                    *state = self.automaton.run(*state, digits.get(..len)?);
                }
            }
            ColumnKind::Raw(_) => self.run_values(&ValueSource::of(self.block, at)?, selected, states)?,
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                self.run_dictionary(at, values, selected, states)?;
            }
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                self.run_table(self.block.tree.tables(tables).first()?, selected, states)?;
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                self.run_tables(at, outliers, self.block.tree.tables(tables), selected, states)?;
            }
        }
        states.collapse();
        Some(())
    }

    fn run_table(&self, table: &TableNode, selected: RowSelection<'_>, states: &mut RowStates) -> Option<()> {
        self.run_parts(self.block.tree.parts(table), selected, states)
    }

    /// Runs over the rows of a table, part by part. Settled rows are dropped: the others are then often in one state.
    fn run_parts(&self, parts: &[TablePart], selected: RowSelection<'_>, states: &mut RowStates) -> Option<()> {
        let mut parts = parts.iter();
        let mut left = loop {
            let Some(part) = parts.next().filter(|_| !states.is_settled()) else { return Some(()) };
            self.run_part(part, selected, states)?;
            if let Some(left) = UnsettledRows::of(states, None, selected) {
                break left;
            }
        };
        for part in parts {
            if left.states.is_settled() {
                break;
            }
            self.run_part(part, Some(&left.rows), &mut left.states)?;
            if let Some(fewer) = UnsettledRows::of(&left.states, Some(&left.positions), Some(&left.rows)) {
                states.scatter(&left.positions, &left.states);
                left = fewer;
            }
        }
        states.scatter(&left.positions, &left.states);
        Some(())
    }

    fn run_part(&self, part: &TablePart, selected: RowSelection<'_>, states: &mut RowStates) -> Option<()> {
        match part {
            TablePart::Literal(list) => self.run_literal(self.block.literal(*list), states),
            TablePart::Column(node) => self.run_column(*node, selected, states)?,
        }
        Some(())
    }

    fn run_tables(
        &self,
        at: usize,
        rest: Option<usize>,
        tables: &[TableNode],
        selected: RowSelection<'_>,
        states: &mut RowStates,
    ) -> Option<()> {
        let one = |number: usize, selected: RowSelection<'_>, states: &mut RowStates| match number.checked_sub(1) {
            None => self.run_column(rest?, selected, states),
            Some(table) => self.run_table(tables.get(table)?, selected, states),
        };
        let Some(selected) = selected else {
            for (number, list) in
                self.block.values_of_tables(at)?.iter().enumerate().filter(|(_, list)| !list.is_empty())
            {
                if self.cancel.poll() {
                    break;
                }
                let mut inner = states.gather(list);
                one(number, None, &mut inner)?;
                states.scatter(list, &inner);
            }
            return Some(());
        };
        let (table_ids, rows) = self.block.rows_in_tables(at)?;
        let mut positions: Vec<u32> = (0..selected.len() as u32).collect();
        let table_of = |place: &u32| selected.get(*place as usize).and_then(|row| table_ids.get(*row as usize));
        positions.sort_by_key(table_of);
        for positions in positions.chunk_by(|a, b| table_of(a) == table_of(b)) {
            if self.cancel.poll() {
                break;
            }
            let inner_rows: Option<Vec<u32>> =
                positions.iter().map(|place| rows.get(*selected.get(*place as usize)? as usize).copied()).collect();
            let mut inner = states.gather(positions);
            one(positions.first().and_then(table_of)?, Some(&inner_rows?), &mut inner)?;
            states.scatter(positions, &inner);
        }
        Some(())
    }

    fn run_literal(&self, text: &[u8], states: &mut RowStates) {
        if let Some(state) = states.common_state {
            return states.set_all(self.automaton.run(state, text));
        }
        self.block.add_work(states.len as u64 * search_work::ROW);
        let mut known = vec![u16::MAX; self.automaton.state_count()];
        for state in states.states_mut() {
            if let Some(to) = known.get_mut(*state as usize) {
                if *to == u16::MAX {
                    *to = self.automaton.run(*state, text);
                }
                *state = *to;
            }
        }
        states.collapse();
    }

    /// Runs over values with an LF after each.
    fn run_raw_texts(&self, text: &[u8], states: &mut RowStates) {
        let (mut from, mut steps) = (0, 0);
        for state in states.states_mut() {
            let rest = text.get(from..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            *state = self.automaton.run_counted(*state, rest.get(..end).unwrap_or_default(), &mut steps);
            from += end + 1;
        }
        let values = states.len as u64 * search_work::RUN_VALUE;
        self.block.add_work(values + text.len() as u64 + steps * search_work::STEP);
    }

    /// Runs over values, built where they are not stored as text.
    fn run_values(&self, source: &ValueSource<'_>, selected: RowSelection<'_>, states: &mut RowStates) -> Option<()> {
        let (mut out, mut steps, mut built) = (BoundedBuffer::new(VALUE_BUFFER_BYTES), 0, (0, 0));
        for (at, state) in states.states_mut().iter_mut().enumerate().filter(|(_, state)| **state > MATCHED) {
            let row = selected_row(selected, at)?;
            if let Some(value) = source.get(row) {
                *state = self.automaton.run_counted(*state, value, &mut steps);
                continue;
            }
            out.truncate(0);
            out.push_growing(self.block.text_len, |out| source.push(row, out))?;
            built = (built.0 + 1, built.1 + out.text().len() as u64);
            *state = self.automaton.run_counted(*state, out.text(), &mut steps);
        }
        let (values, bytes) = built;
        self.block.add_work(values * search_work::BUILT_VALUE + bytes * search_work::BUILT_BYTE);
        self.block.add_work(states.len as u64 * search_work::RUN_VALUE + steps * search_work::STEP);
        Some(())
    }

    fn run_dictionary(
        &self,
        at: usize,
        values: usize,
        selected: RowSelection<'_>,
        states: &mut RowStates,
    ) -> Option<()> {
        let distinct = self.block.node(values)?.rows;
        if let Some(state) = states.common_state.filter(|_| distinct <= states.len * 2) {
            let mut inner = RowStates::all(state, distinct);
            self.run_column(values, None, &mut inner)?;
            match inner.common_state {
                Some(state) => states.set_all(state),
                None => {
                    self.block.add_work(states.len as u64 * search_work::ROW);
                    let ids = self.block.codes_of(at)?;
                    for (at, state) in states.states_mut().iter_mut().enumerate() {
                        *state = *inner.states.get(ids.get(selected_row(selected, at)?)?)?;
                    }
                }
            }
            return Some(());
        }
        if states.len * VALUES_PER_ROW_MIN <= distinct {
            let ids = self.block.codes_of(at)?;
            let of_rows: Option<Vec<u32>> =
                (0..states.len).map(|at| ids.get(selected_row(selected, at)?).map(|id| id as u32)).collect();
            return self.run_column(values, Some(&of_rows?), states);
        }
        let present = states.distinct_states(self.automaton.state_count());
        if present.len() * distinct > states.len * 2 {
            return self.run_values(&ValueSource::of(self.block, at)?, selected, states);
        }
        // Each value is run from each state.
        self.block.add_work(states.len as u64 * search_work::ROW);
        let mut from = vec![usize::MAX; self.automaton.state_count()];
        let mut to: Vec<RowStates> = Vec::with_capacity(present.len());
        for state in present {
            let mut inner = RowStates::all(state, distinct);
            self.run_column(values, None, &mut inner)?;
            *from.get_mut(state as usize)? = to.len();
            to.push(inner);
        }
        if to.iter().all(|inner| inner.common_state.is_some()) {
            for state in states.states_mut() {
                *state = to.get(*from.get(*state as usize)?)?.common_state?;
            }
            return Some(());
        }
        let ids = self.block.codes_of(at)?;
        for (at, state) in states.states_mut().iter_mut().enumerate() {
            let inner = to.get(*from.get(*state as usize)?)?;
            *state = inner.get(ids.get(selected_row(selected, at)?)?);
        }
        Some(())
    }

    /// The state after any value with this pattern, if it is the same for all.
    fn common_pattern_state(&self, positions: &[PatternByte], states: &RowStates) -> Option<u16> {
        positions.iter().try_fold(states.common_state?, |state, place| match place {
            PatternByte::Literal(byte) => Some(self.automaton.step(state, *byte)),
            PatternByte::Digit => self.automaton.common_step(state, DIGITS),
            PatternByte::LowerHex => self.automaton.common_step(state, LOWER_HEX),
            PatternByte::UpperHex => self.automaton.common_step(state, UPPER_HEX),
        })
    }

    /// Whether the encoding of the column shows that no value changes a state.
    fn keeps_states(&self, at: usize, states: &RowStates) -> Option<bool> {
        let mut set = [0; 4];
        if !self.add_possible_bytes(at, &mut set)? {
            return Some(false);
        }
        Some(match states.common_state {
            Some(state) => self.automaton.stays_on(state, &set),
            None => states.states.iter().all(|state| self.automaton.stays_on(*state, &set)),
        })
    }

    /// Adds the bytes that values of the column may contain; `false` if the encoding does not show them.
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
