//! The state of an automaton in each row of a column.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::{Bitmap, MATCHED, RowSet};

/// The share of settled rows, one in this many, from which the others continue alone while they are in several states.
const SETTLED_ROWS_DIVISOR: usize = 8;

/// The state of the automaton in each row.
#[derive(Debug)]
pub(super) struct RowStates {
    /// The state of all rows.
    pub(super) common_state: Option<u16>,
    /// The state of each row, if they differ.
    pub(super) states: Vec<u16>,
    pub(super) len: usize,
}

impl RowStates {
    pub(super) fn all(state: u16, len: usize) -> Self {
        Self { common_state: Some(state), states: Vec::new(), len }
    }

    pub(super) fn get(&self, at: usize) -> u16 {
        self.common_state.or_else(|| self.states.get(at).copied()).unwrap_or_default()
    }

    /// The state of each row, to be changed.
    pub(super) fn states_mut(&mut self) -> &mut [u16] {
        if let Some(state) = self.common_state.take() {
            self.states.clear();
            self.states.resize(self.len, state);
        }
        &mut self.states
    }

    /// Sets the common state if all rows are in one state.
    pub(super) fn collapse(&mut self) {
        if self.common_state.is_none()
            && let Some((first, others)) = self.states.split_first()
            && others.iter().fold(0, |differ, other| differ | (other ^ first)) == 0
        {
            self.common_state = Some(*first);
        }
    }

    pub(super) fn set_all(&mut self, state: u16) {
        self.common_state = Some(state);
    }

    /// Whether all rows are settled in one state.
    pub(super) fn is_settled(&self) -> bool {
        self.common_state.is_some_and(|state| state <= MATCHED)
    }

    /// The states in which rows are.
    pub(super) fn distinct_states(&self, states: usize) -> Vec<u16> {
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

    /// The rows whose state passes. `selected` lists the rows of `among`, of `len` in total.
    pub(super) fn select_rows(
        &self,
        len: usize,
        among: &RowSet,
        selected: RowSelection<'_>,
        test: impl Fn(u16) -> bool,
    ) -> RowSet {
        if let Some(state) = self.common_state {
            return if test(state) { among.clone() } else { RowSet::None };
        }
        let Some(selected) = selected else {
            return RowSet::from_fn(len, |row| self.states.get(row).is_some_and(|state| test(*state)));
        };
        let mut bits = Bitmap::new(len);
        let tested = selected.iter().zip(&self.states).filter(|(_, state)| test(**state));
        tested.for_each(|(row, _)| bits.set(*row as usize));
        RowSet::from_bitmap(bits)
    }

    /// The states of some rows.
    pub(super) fn gather(&self, rows: &[u32]) -> Self {
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

    /// Writes back the states of some rows.
    pub(super) fn scatter(&mut self, rows: &[u32], states: &Self) {
        if self.common_state.is_some() && self.common_state == states.common_state {
            return;
        }
        let each = self.states_mut();
        for (at, row) in rows.iter().enumerate() {
            if let Some(place) = each.get_mut(*row as usize) {
                *place = states.get(at);
            }
        }
    }
}

/// The rows of a table that are not settled.
pub(super) struct UnsettledRows {
    /// Their positions among the selected rows.
    pub(super) positions: Vec<u32>,
    /// Their row numbers.
    pub(super) rows: Vec<u32>,
    pub(super) states: RowStates,
}

impl UnsettledRows {
    /// The unsettled rows, if continuing with them alone is cheaper. `positions` and `selected` belong to `states`.
    pub(super) fn of(states: &RowStates, positions: Option<&[u32]>, selected: RowSelection<'_>) -> Option<Self> {
        if states.common_state.is_some() {
            return None;
        }
        // Counted before anything is allocated: mostly no row is settled, or too few.
        let open_count = count_states(&states.states, |state| state > MATCHED);
        if open_count == states.len {
            return None;
        }
        let first_open = states.states.iter().copied().find(|state| *state > MATCHED);
        let common_state =
            first_open.filter(|first| count_states(&states.states, |state| state == *first) == open_count);
        if common_state.is_none() && open_count * SETTLED_ROWS_DIVISOR > states.len * (SETTLED_ROWS_DIVISOR - 1) {
            return None;
        }
        let open = open_rows(&states.states, open_count);
        let picked = match common_state {
            Some(state) => RowStates::all(state, open.len()),
            None => states.gather(&open),
        };
        let of = |list: Option<&[u32]>| match list {
            None => open.clone(),
            Some(list) => open.iter().filter_map(|at| list.get(*at as usize).copied()).collect(),
        };
        Some(Self { positions: of(positions), rows: of(selected), states: picked })
    }
}

/// The number of states that pass.
fn count_states(states: &[u16], test: impl Fn(u16) -> bool) -> usize {
    states.iter().map(|state| u32::from(test(*state))).sum::<u32>() as usize
}

/// The positions of the states that are not settled, of which there are `count`. Without a branch per row, as any may be settled.
fn open_rows(states: &[u16], count: usize) -> Vec<u32> {
    let mut open = vec![0; count];
    let mut next = 0;
    for (at, state) in states.iter().enumerate() {
        if let Some(place) = open.get_mut(next) {
            *place = at as u32;
        }
        next += usize::from(*state > MATCHED);
    }
    open
}

/// The rows of a column over which the automaton runs; `None` for all.
pub(super) type RowSelection<'c> = Option<&'c [u32]>;

/// The selected row at position `at`.
pub(super) fn selected_row(selected: RowSelection<'_>, at: usize) -> Option<usize> {
    selected.map_or(Some(at), |rows| rows.get(at).map(|row| *row as usize))
}

/// The rows as a list; `None` for all rows.
pub(super) fn selected_rows(among: &RowSet) -> Option<Vec<u32>> {
    match among {
        RowSet::None => Some(Vec::new()),
        RowSet::All => None,
        RowSet::Some(bits) => Some(bits.iter().map(|row| row as u32).collect()),
    }
}
