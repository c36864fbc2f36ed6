//! Divides a search among stores that hold the same records, so that each record is searched once.
//!
//! Stores report the sum of their ids for each replica group and interval of time. Stores with equal sums hold the same
//! records, and one of them searches them: it *owns* the interval. Owners alternate by periods of time, so the load is even, and a repeated
//! search finds the blocks of its share in the cache of the same store. A record whose stores do not agree, because it has only
//! just arrived or because one of them has lost it, is searched by all.
//!
//! When a store fails, other holders search what it owned ([`Division::reassign`]).

use std::collections::BTreeMap;

use bucksaw_segment::stored::{IdSum, Interval, ReplicaGroup};
use bucksaw_store::{ReplicaRun, ReplicaState, SearchShare};

/// Intervals of a period for each interval that a block covers beyond its first. Both stores search a block on the border of two
/// periods, so at most this fraction of the text is searched twice.
const INTERVALS_PER_BLOCK: u64 = 32;

/// Maximum intervals of all groups with periods of a single interval: a request lists the periods.
const SHORT_PERIODS_MAX: usize = 1_024;

/// Intervals of any group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IntervalSet(Vec<(Interval, Interval)>);

impl IntervalSet {
    /// Those of some ranges, both ends inclusive.
    pub(crate) fn of(ranges: impl Iterator<Item = (Interval, Interval)>) -> Self {
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable();
        let mut merged: Vec<(Interval, Interval)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= *end => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub(crate) fn contains(&self, interval: Interval) -> bool {
        let before = self.0.partition_point(|(first, _)| *first <= interval);
        before.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, last)| interval <= *last)
    }
}

/// A run, its owner and all of its holders, by number of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DividedRun {
    run: ReplicaRun,
    owner: usize,
    /// Ascending, the owner included.
    holders: Vec<usize>,
}

/// A divided search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Division {
    /// By group and interval.
    runs: Vec<DividedRun>,
    /// The token of each node's state; `None` of nodes that reported none.
    tokens: Vec<Option<String>>,
    intervals: IntervalSet,
}

/// What is to be asked of another node in place of one that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reassigned {
    /// The node to ask.
    pub(crate) node: usize,
    pub(crate) share: SearchShare,
    /// The numbers of the runs.
    pub(crate) runs: Vec<usize>,
}

impl Division {
    /// Divides by the states of the nodes, with periods of about this many bytes of text.
    pub(crate) fn new(states: Vec<Option<ReplicaState>>, period_bytes: u64) -> Self {
        // A sum of more intervals is the sum of their sums.
        let interval_bits = states.iter().flatten().map(|state| state.interval_bits).max().unwrap_or(0);
        let states: Vec<_> = states.into_iter().map(|state| state.map(|state| state.coarse(interval_bits))).collect();
        let mut sums: BTreeMap<(ReplicaGroup, Interval), Vec<(usize, IdSum)>> = BTreeMap::new();
        for (node, state) in states.iter().enumerate() {
            for (key, sum) in state.iter().flat_map(|state| &state.sums) {
                sums.entry(*key).or_default().push((node, *sum));
            }
        }
        let period_bits = period_bits(&states, interval_bits, period_bytes);
        let mut runs: Vec<DividedRun> = Vec::new();
        let mut entries = sums.into_iter().peekable();
        // Whether the last run may be extended.
        let mut is_open = false;
        while let Some(((group, interval), sums)) = entries.next() {
            let Some((holders, sum)) = holders(&sums) else {
                is_open = false;
                continue;
            };
            let period = u64::from(interval.0.checked_shr(period_bits).unwrap_or(0)).wrapping_add(group.0.get());
            let Some(owner) = holders.get((period % holders.len() as u64) as usize).copied() else { continue };
            // New records come to the last interval, and change its sum.
            let is_last = entries.peek().is_none_or(|((next, _), _)| *next != group);
            let last = runs.last_mut().filter(|last| is_open && last.run.group == group);
            let is_extended = |last: &&mut DividedRun| !is_last && (last.owner, &last.holders) == (owner, &holders);
            let end = interval.coarse_last(interval_bits);
            match last {
                Some(last) if is_extended(&last) => {
                    last.run.last = end;
                    last.run.sum.add(sum);
                }
                last => {
                    // No store has records in between, and a block may cover that time.
                    if let Some(last) = last {
                        last.run.last = Interval(interval.0 - 1);
                    }
                    let run = ReplicaRun { group, first: interval, last: end, sum };
                    runs.push(DividedRun { run, owner, holders });
                }
            }
            is_open = true;
        }
        let intervals = IntervalSet::of(runs.iter().map(|divided| (divided.run.first, divided.run.last)));
        Self {
            runs,
            tokens: states.iter().map(|state| state.as_ref().map(|state| state.token.clone())).collect(),
            intervals,
        }
    }

    /// The token of a node's state.
    pub(crate) fn token_of(&self, node: usize) -> Option<&str> {
        self.tokens.get(node)?.as_deref()
    }

    /// The share of a node; `None` if it searches all that it has.
    pub(crate) fn share_of(&self, node: usize) -> Option<SearchShare> {
        let token = self.token_of(node)?.to_owned();
        let is_held = |divided: &&DividedRun| divided.holders.contains(&node);
        let held: Vec<&DividedRun> = self.runs.iter().filter(is_held).collect();
        let skipped = held.iter().filter(|divided| divided.owner != node).map(|divided| divided.run).collect();
        (!held.is_empty()).then_some(SearchShare { token, skipped, only: None })
    }

    /// The numbers of the runs that a node searches for others.
    pub(crate) fn owned_by(&self, node: usize) -> Vec<usize> {
        self.runs.iter().enumerate().filter(|(_, divided)| divided.owner == node).map(|(number, _)| number).collect()
    }

    /// The intervals whose records are searched by some of their stores only.
    pub(crate) fn intervals(&self) -> &IntervalSet {
        &self.intervals
    }

    /// The nodes that hold the records of a run.
    pub(crate) fn holders(&self, run: usize) -> &[usize] {
        self.runs.get(run).map_or(&[], |divided| &divided.holders)
    }

    /// Divides runs among their holders without the excluded ones. Runs that have no other are left out.
    pub(crate) fn reassign(&self, runs: &[usize], excluded: impl Fn(usize) -> bool) -> Vec<Reassigned> {
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in runs {
            let holders: Vec<usize> =
                self.holders(*number).iter().copied().filter(|holder| !excluded(*holder)).collect();
            let node = number.checked_rem(holders.len()).and_then(|at| holders.get(at));
            if let Some(node) = node {
                by_node.entry(*node).or_default().push(*number);
            }
        }
        let reassigned = by_node.into_iter().filter_map(|(node, runs)| {
            let only = runs.iter().filter_map(|number| self.runs.get(*number)).map(|divided| divided.run).collect();
            let token = self.token_of(node)?.to_owned();
            Some(Reassigned { node, share: SearchShare { token, skipped: Vec::new(), only: Some(only) }, runs })
        });
        reassigned.collect()
    }
}

/// The most nodes with equal sums, at least two, and their sum.
fn holders(sums: &[(usize, IdSum)]) -> Option<(Vec<usize>, IdSum)> {
    let equal = |sum: IdSum| sums.iter().filter(move |(_, other)| *other == sum).map(|(node, _)| *node);
    // Of two equally large sets the first.
    let (_, sum) = sums.iter().rev().max_by_key(|(_, sum)| equal(*sum).count())?;
    let holders: Vec<usize> = equal(*sum).collect();
    (holders.len() > 1).then_some((holders, *sum))
}

/// The binary logarithm of the intervals of a period: as many as have the bytes, as their blocks need, and as a request may list.
fn period_bits(states: &[Option<ReplicaState>], interval_bits: u32, period_bytes: u64) -> u32 {
    let sum = |value: fn(&ReplicaState) -> u64| states.iter().flatten().map(value).fold(0, u64::saturating_add);
    let sums = states.iter().flatten().map(|state| state.sums.len()).sum::<usize>();
    let mean_bytes = sum(|state| state.text_bytes) / (sums as u64).max(1);
    let by_bytes = (period_bytes / mean_bytes.max(1)).checked_ilog2().unwrap_or(0);
    let by_number = (sums / SHORT_PERIODS_MAX).checked_ilog2().map_or(0, |bits| bits + 1);
    let blocks = sum(|state| state.blocks);
    let further = sum(|state| state.block_intervals).saturating_sub(blocks);
    let by_blocks = further.saturating_mul(INTERVALS_PER_BLOCK).div_ceil(blocks.max(1));
    let by_blocks = by_blocks.checked_next_power_of_two().map_or(Interval::BITS, u64::trailing_zeros);
    (interval_bits + by_bytes.max(by_number)).max(by_blocks).min(Interval::BITS)
}

#[cfg(test)]
mod tests;
