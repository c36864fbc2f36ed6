//! A deterministic automaton over the bytes of a line, as a table: what a regex becomes to be run over columns.

use std::collections::HashMap;
use std::hash::Hash;

/// Where no line is accepted any more, whatever follows.
pub(crate) const DEAD: u16 = 0;

/// Where the line is accepted, whatever follows.
pub(crate) const MATCHED: u16 = 1;

/// Places of the table, at most: it stays in the cache of a core, and is made in some milliseconds at worst.
const TABLE_ENTRIES_MAX: usize = 1 << 15;

/// Bytes that are walked before it is asked again whether many can be skipped.
const STRIDE: usize = 16;

/// What comes of a state and a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition<S> {
    /// The line is not accepted, whatever follows.
    Dead,
    /// The line is accepted, whatever follows.
    Matched,
    /// Another state, or the same.
    To(S),
}

/// An automaton as a table.
#[derive(Debug)]
pub struct Automaton {
    /// Bytes that are the same to it have the same class.
    classes: [u8; 256],
    /// The row of a state has `1 << shift` places.
    shift: u32,
    next: Vec<u16>,
    /// Whether a line that ends in this state is accepted.
    accepts: Vec<bool>,
    /// For each state the bytes that it stays in at.
    self_loops: Vec<[u64; 4]>,
    /// For each state the bytes that it does not stay in at, where they are so few that they can be looked for.
    exits: Vec<Option<ExitBytes>>,
    start: u16,
}

/// The only bytes at which a state is left; some may be the same.
#[derive(Clone, Copy, Debug)]
struct ExitBytes([u8; 3]);

impl ExitBytes {
    fn of(keeps: &[u64; 4]) -> Option<Self> {
        let mut left = (0..=255_u8).filter(|byte| keeps[*byte as usize / 64] >> (byte % 64) & 1 == 0);
        let first = left.next()?;
        let (second, third) = (left.next().unwrap_or(first), left.next().unwrap_or(first));
        left.next().is_none().then_some(Self([first, second, third]))
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
    /// Explores an automaton from its start. `classes` tells bytes apart, from 0 on without a gap; `step` and `at_end` say
    /// `None` to give up. `None` also when there are too many states.
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
        let (keeps, leaves) = (Vec::new(), Vec::new());
        let mut automaton =
            Self { classes, shift, next, accepts, self_loops: keeps, exits: leaves, start: first as u16 };
        let keeps = |state: u16| {
            let mut set = [0; 4];
            let kept = (0..=255_u8).filter(|byte| automaton.step(state, *byte) == state);
            kept.for_each(|byte| set[byte as usize / 64] |= 1 << (byte % 64));
            set
        };
        automaton.self_loops = (0..automaton.accepts.len() as u16).map(keeps).collect();
        automaton.exits = automaton.self_loops.iter().map(ExitBytes::of).collect();
        Some(automaton)
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.next.len() * 2
            + self.accepts.len() * (1 + size_of::<[u64; 4]>() + size_of::<Option<ExitBytes>>())
    }

    pub(crate) fn start(&self) -> u16 {
        self.start
    }

    pub(crate) fn state_count(&self) -> usize {
        self.accepts.len()
    }

    #[inline]
    pub(crate) fn step(&self, state: u16, byte: u8) -> u16 {
        let class = self.classes[byte as usize];
        // The row of a state that is there has a place for each class.
        self.next.get((state as usize) << self.shift | class as usize).copied().unwrap_or(DEAD)
    }

    /// Where a text leads.
    #[inline]
    pub(crate) fn run(&self, mut state: u16, text: &[u8]) -> u16 {
        let mut rest = text;
        while !rest.is_empty() && state > MATCHED {
            // A state that is seldom left, as the start of most regexes is, is left behind as fast as memory is read.
            if rest.len() > STRIDE
                && let Some(leaves) = self.exits.get(state as usize).copied().flatten()
            {
                match leaves.find(rest).and_then(|at| rest.get(at..)) {
                    Some(behind) => rest = behind,
                    None => return state,
                }
            }
            let (some, behind) = rest.split_at(rest.len().min(STRIDE));
            for byte in some {
                state = self.step(state, *byte);
            }
            rest = behind;
        }
        state
    }

    pub(crate) fn accepts(&self, state: u16) -> bool {
        self.accepts.get(state as usize).copied().unwrap_or(false)
    }

    /// Whether the state stays what it is at each of these bytes.
    pub(crate) fn stays_on(&self, state: u16, bytes: &[u64; 4]) -> bool {
        self.self_loops
            .get(state as usize)
            .is_some_and(|kept| kept.iter().zip(bytes).all(|(kept, bytes)| bytes & !kept == 0))
    }

    /// Where each of these bytes leads, if that is the same for all.
    pub(crate) fn common_step(&self, state: u16, bytes: &[u8]) -> Option<u16> {
        let (first, others) = bytes.split_first()?;
        let to = self.step(state, *first);
        others.iter().all(|byte| self.step(state, *byte) == to).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts lines with two of `a` one after the other, or with `b` at the end.
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
        // Nothing but `a` and `b` is looked for where a text is long.
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
    fn too_many_states_are_refused() {
        let classes = [0; 256];
        let counting = |state: u32, _: u8| Some(Transition::To(state + 1));
        assert!(Automaton::explore(classes, 0, counting, |_| Some(false)).is_none());
        assert!(Automaton::explore(classes, 0, |_, _| None::<Transition<u8>>, |_| Some(false)).is_none());
    }
}
