//! A deterministic automaton over the bytes of a row, as a transition table.

use std::collections::HashMap;
use std::hash::Hash;

/// The state from which no row is accepted, whatever follows.
pub const DEAD: u16 = 0;

/// The state in which the row is accepted, whatever follows.
pub const MATCHED: u16 = 1;

/// The largest table, in entries of two bytes: it fits in a core's cache and is built within some milliseconds.
const TABLE_ENTRIES_MAX: usize = 1 << 15;

/// Bytes that are stepped through before the automaton tries again to skip bytes.
const STRIDE: usize = 16;

/// The result of a state and a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition<S> {
    /// The row is not accepted, whatever follows.
    Dead,
    /// The row is accepted, whatever follows.
    Matched,
    /// The next state.
    To(S),
}

/// A deterministic automaton as a transition table.
#[derive(Debug)]
pub struct Automaton {
    /// The class of each byte; bytes of one class have equal transitions.
    classes: [u8; 256],
    /// A state has `1 << shift` entries in the table.
    shift: u32,
    next: Vec<u16>,
    /// Whether a row that ends in the state is accepted.
    accepts: Vec<bool>,
    /// For each state, the bytes that do not change it.
    self_loops: Vec<[u64; 4]>,
    /// For each state, the bytes that change it, if at most three do.
    exits: Vec<Option<ExitBytes>>,
    start: u16,
}

/// Up to three bytes that change a state; repeated if fewer.
#[derive(Clone, Copy, Debug)]
struct ExitBytes([u8; 3]);

impl ExitBytes {
    fn of(self_loops: &[u64; 4]) -> Option<Self> {
        let mut exits = (0..=255_u8).filter(|byte| self_loops[*byte as usize / 64] >> (byte % 64) & 1 == 0);
        let first = exits.next()?;
        let (second, third) = (exits.next().unwrap_or(first), exits.next().unwrap_or(first));
        exits.next().is_none().then_some(Self([first, second, third]))
    }

    #[inline]
    fn find(self, text: &[u8]) -> Option<usize> {
        match self.0 {
            [a, b, _] if a == b => memchr::memchr(a, text),
            [a, b, c] => memchr::memchr3(a, b, c, text),
        }
    }
}

impl Automaton {
    /// Builds the table by following `step` from the start state. `classes` numbers the classes of bytes from 0 without a
    /// gap; `at_end` is whether a row that ends in a state is accepted. `None` if either returns `None`, or if the table
    /// would be too large.
    pub fn explore<S: Copy + Eq + Hash>(
        classes: [u8; 256],
        start: S,
        mut step: impl FnMut(S, u8) -> Option<Transition<S>>,
        mut at_end: impl FnMut(S) -> Option<bool>,
    ) -> Option<Self> {
        let count = usize::from(classes.iter().copied().max().unwrap_or_default()) + 1;
        let mut sample = [0; 256];
        (0..=255).for_each(|byte: u8| sample[classes[byte as usize] as usize] = byte);
        let shift = count.next_power_of_two().trailing_zeros();
        let first = MATCHED as usize + 1;
        let mut states = vec![start];
        let mut numbers = HashMap::from([(start, first as u16)]);
        let mut next = vec![DEAD; 1 << shift];
        next.resize(first << shift, MATCHED);
        let mut accepts = vec![false, true];
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            at += 1;
            let row = next.len();
            next.resize(row + (1 << shift), DEAD);
            for (place, byte) in next[row..].iter_mut().zip(&sample[..count]) {
                *place = match step(state, *byte)? {
                    Transition::Dead => DEAD,
                    Transition::Matched => MATCHED,
                    Transition::To(to) => *numbers.entry(to).or_insert_with(|| {
                        states.push(to);
                        (states.len() - 1 + first) as u16
                    }),
                };
            }
            if (states.len() + first) << shift > TABLE_ENTRIES_MAX {
                return None;
            }
            accepts.push(at_end(state)?);
        }
        let (self_loops, exits) = (Vec::new(), Vec::new());
        let mut automaton = Self { classes, shift, next, accepts, self_loops, exits, start: first as u16 };
        let self_loops = |state: u16| {
            let mut set = [0; 4];
            let unchanged = (0..=255_u8).filter(|byte| automaton.step(state, *byte) == state);
            unchanged.for_each(|byte| set[byte as usize / 64] |= 1 << (byte % 64));
            set
        };
        automaton.self_loops = (0..automaton.accepts.len() as u16).map(self_loops).collect();
        automaton.exits = automaton.self_loops.iter().map(ExitBytes::of).collect();
        Some(automaton)
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.next.len() * 2
            + self.accepts.len() * (1 + size_of::<[u64; 4]>() + size_of::<Option<ExitBytes>>())
    }

    /// The state before the first byte.
    #[inline]
    #[must_use]
    pub fn start(&self) -> u16 {
        self.start
    }

    /// The number of states, [`DEAD`] and [`MATCHED`] included.
    #[inline]
    pub fn state_count(&self) -> usize {
        self.accepts.len()
    }

    /// The state after one more byte.
    #[inline]
    pub fn step(&self, state: u16, byte: u8) -> u16 {
        let class = self.classes[byte as usize];
        // A state has an entry for each class.
        self.next.get((state as usize) << self.shift | class as usize).copied().unwrap_or(DEAD)
    }

    /// The state after a text.
    #[inline]
    pub fn run(&self, state: u16, text: &[u8]) -> u16 {
        self.run_counted(state, text, &mut 0)
    }

    /// As [`Self::run`], and adds the number of bytes that were stepped over one by one to `steps`: the others were skipped, or
    /// are behind the byte that settled the state.
    #[inline]
    pub fn run_counted(&self, mut state: u16, text: &[u8], steps: &mut u64) -> u16 {
        let mut rest = text;
        while !rest.is_empty() && state > MATCHED {
            // A state with few exits, such as the start of most regexes, is scanned with memchr.
            if rest.len() > STRIDE
                && let Some(exits) = self.exits.get(state as usize).copied().flatten()
            {
                match exits.find(rest).and_then(|at| rest.get(at..)) {
                    Some(from_exit) => rest = from_exit,
                    None => return state,
                }
            }
            let (stride, remaining) = rest.split_at(rest.len().min(STRIDE));
            for byte in stride {
                state = self.step(state, *byte);
            }
            *steps += stride.len() as u64;
            rest = remaining;
        }
        state
    }

    /// Whether a row that ends in the state is accepted.
    #[inline]
    pub fn accepts(&self, state: u16) -> bool {
        self.accepts.get(state as usize).copied().unwrap_or(false)
    }

    /// Whether none of these bytes changes the state.
    #[inline]
    pub fn stays_on(&self, state: u16, bytes: &[u64; 4]) -> bool {
        self.self_loops
            .get(state as usize)
            .is_some_and(|unchanged| unchanged.iter().zip(bytes).all(|(unchanged, bytes)| bytes & !unchanged == 0))
    }

    /// The state after any one of these bytes, if it is the same for all.
    pub fn common_step(&self, state: u16, bytes: &[u8]) -> Option<u16> {
        let (first, others) = bytes.split_first()?;
        let to = self.step(state, *first);
        others.iter().all(|byte| self.step(state, *byte) == to).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts lines that contain `aa` or end with `b`.
    fn automaton() -> Automaton {
        let mut classes = [0; 256];
        classes[b'a' as usize] = 1;
        classes[b'b' as usize] = 2;
        let step = |state: u8, byte: u8| {
            Some(match (state, byte) {
                (1, b'a') => Transition::Matched,
                (_, b'a') => Transition::To(1),
                (_, b'b') => Transition::To(2),
                _ => Transition::To(0),
            })
        };
        Automaton::explore(classes, 0, step, |state| Some(state == 2)).unwrap()
    }

    #[test]
    fn lines_are_accepted() {
        let automaton = automaton();
        assert_eq!(automaton.state_count(), 5);
        let accepts = |line: &str| automaton.accepts(automaton.run(automaton.start(), line.as_bytes()));
        assert!(accepts("xaay") && accepts("axb") && accepts("aab"));
        assert!(!accepts("") && !accepts("axa") && !accepts("bx"));
        // In a long text the start state is scanned for its exits `a` and `b`.
        let long = |end: &str| accepts(&format!("{}{end}", "xyz".repeat(50)));
        assert!(long("aay") && long("axb") && long(&format!("aa{}", "x".repeat(99))));
        assert!(!long("") && !long("axa") && !long(&format!("bx{}", "y".repeat(99))));
        let set = |byte: u8| {
            let mut set = [0; 4];
            set[byte as usize / 64] = 1 << (byte % 64);
            set
        };
        assert!(
            automaton.stays_on(automaton.start(), &set(b'x')) && !automaton.stays_on(automaton.start(), &set(b'a'))
        );
        assert_eq!(automaton.common_step(automaton.start(), b"xyz"), Some(automaton.start()));
        assert_eq!(automaton.common_step(automaton.start(), b"xa"), None);
    }

    #[test]
    fn skipped_bytes_and_those_behind_a_settled_state_are_no_steps() {
        let automaton = automaton();
        let steps = |line: &str| {
            let mut steps = 0;
            automaton.run_counted(automaton.start(), line.as_bytes(), &mut steps);
            steps as usize
        };
        assert_eq!(steps("abxab"), 5);
        assert!(steps(&format!("aa{}", "ab".repeat(1_000))) <= STRIDE);
        assert_eq!(steps(&"x".repeat(1_000)), 0);
        assert_eq!(steps(&"ab".repeat(500)), 1_000);
    }

    #[test]
    fn too_many_states_are_refused() {
        let classes = [0; 256];
        let counting = |state: u32, _: u8| Some(Transition::To(state + 1));
        assert!(Automaton::explore(classes, 0, counting, |_| Some(false)).is_none());
        assert!(Automaton::explore(classes, 0, |_, _| None::<Transition<u8>>, |_| Some(false)).is_none());
    }
}
