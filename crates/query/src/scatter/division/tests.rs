use std::num::NonZeroU64;

use proptest::prelude::*;

use super::*;

const PERIOD: u64 = 64 << 20;

fn group(number: u64) -> ReplicaGroup {
    ReplicaGroup(NonZeroU64::new(number).unwrap())
}

/// A state with these sums by group and interval.
fn state(text_bytes: u64, sums: &[(u64, u32, u128)]) -> ReplicaState {
    let sums = sums.iter().map(|(number, interval, sum)| ((group(*number), Interval(*interval)), IdSum(*sum)));
    ReplicaState { token: "t".to_owned(), sums: sums.collect(), text_bytes, ..ReplicaState::default() }
}

/// The intervals that a node leaves to another one, by group.
fn skipped(division: &Division, node: usize) -> Vec<(u64, u32, u32)> {
    let share = division.share_of(node).unwrap_or_default();
    share.skipped.iter().map(|run| (run.group.0.get(), run.first.0, run.last.0)).collect()
}

#[test]
fn equal_intervals_are_divided_by_periods() {
    // Intervals of 32 MiB: two to a period. The last one is a run of its own.
    let sums: Vec<(u64, u32, u128)> = (8..17).map(|interval| (2, interval, u128::from(interval) * 7)).collect();
    let one = state(9 * (32 << 20), &sums);
    let division = Division::new(vec![Some(one.clone()), None, Some(one.clone())], PERIOD);
    assert_eq!(skipped(&division, 2), [(2, 8, 9), (2, 12, 13), (2, 16, 16)]);
    assert_eq!(skipped(&division, 0), [(2, 10, 11), (2, 14, 15)]);
    assert!(division.share_of(1).is_none() && division.share_of(9).is_none());
    let sums: Vec<u128> = division.share_of(0).unwrap().skipped.iter().map(|run| run.sum.0).collect();
    assert_eq!(sums, [(10 + 11) * 7, (14 + 15) * 7]);
    // What differs is searched by both.
    let mut other = one.clone();
    other.sums.insert((group(2), Interval(12)), IdSum(1));
    other.sums.remove(&(group(2), Interval(14)));
    other.text_bytes -= 32 << 20;
    let division = Division::new(vec![Some(one.clone()), Some(other)], PERIOD);
    assert_eq!(skipped(&division, 1), [(2, 8, 9), (2, 13, 13), (2, 16, 16)]);
    assert_eq!(skipped(&division, 0), [(2, 10, 11), (2, 15, 15)]);
    let alone = Division::new(vec![Some(one), None], PERIOD);
    assert_eq!(alone, Division { tokens: vec![Some("t".to_owned()), None], ..Division::default() });
}

#[test]
fn periods_are_long_enough_for_blocks_and_requests() {
    let of = |text_bytes, intervals: u32| {
        let sums: Vec<_> = (0..intervals).map(|interval| (1, interval, 1)).collect();
        period_bits(&[Some(state(text_bytes, &sums))], 0, PERIOD)
    };
    assert_eq!((of(1 << 40, 100), of(100 << 20, 100), of(1_000, 1)), (0, 6, 16));
    for intervals in [1, 100, 1_023, 1_024, 2_048, 100_000] {
        assert!(intervals >> of(u64::MAX, intervals) <= 1_024, "{intervals}");
    }
    assert_eq!((of(u64::MAX, 1_023), of(u64::MAX, 1_024)), (0, 1));
    // Blocks of one interval and of up to four.
    let of_blocks = |blocks, block_intervals| {
        let long = ReplicaState { blocks, block_intervals, ..state(u64::MAX, &[(1, 1, 1)]) };
        period_bits(&[Some(long)], 2, PERIOD)
    };
    assert_eq!((of_blocks(10, 10), of_blocks(10, 11), of_blocks(10, 20), of_blocks(10, 40)), (2, 2, 5, 7));
    assert_eq!((of_blocks(0, 5), of_blocks(1, u64::MAX)), (8, Interval::BITS));
}

#[test]
fn other_holders_search_for_failed_ones() {
    let sums: Vec<(u64, u32, u128)> = (0..8).map(|interval| (1, interval, 5)).collect();
    let three = vec![Some(state(u64::MAX >> 8, &sums)); 3];
    let division = Division::new(three, PERIOD);
    let owned = division.owned_by(0);
    assert_eq!(owned.len(), 2);
    let without = |excluded: &'static [usize]| move |node: usize| excluded.contains(&node);
    let reassigned = division.reassign(&owned, without(&[0]));
    let mut runs: Vec<usize> = reassigned.iter().flat_map(|reassigned| reassigned.runs.clone()).collect();
    runs.sort_unstable();
    assert_eq!(runs, owned);
    for Reassigned { node, share, runs } in &reassigned {
        assert!(*node > 0 && share.skipped.is_empty() && share.only.as_ref().unwrap().len() == runs.len());
        let [third] = division.reassign(runs, |other| other == 0 || other == *node).try_into().unwrap();
        assert_eq!((third.node, &third.runs), (3 - *node, runs));
    }
    assert_eq!(division.reassign(&owned, without(&[0, 1, 2])), []);
    assert!(owned.iter().all(|run| division.holders(*run) == [0, 1, 2]) && division.holders(99).is_empty());
}

/// Up to four nodes, three groups and twenty intervals, with few different sums.
fn states() -> impl Strategy<Value = Vec<Option<ReplicaState>>> {
    let sums = prop::collection::btree_map((1..4_u64, 0..20_u32), 0..2_u128, 0..40);
    let state = (sums, 0..100_u64, 0..60_u64).prop_map(|(sums, mebibytes, block_intervals)| {
        let sums: Vec<_> = sums.into_iter().map(|((group, interval), sum)| (group, interval, sum)).collect();
        ReplicaState { blocks: 20, block_intervals, ..state(mebibytes << 20, &sums) }
    });
    let coarse = (state, 0..3_u32).prop_map(|(state, bits)| state.coarse(bits));
    prop::collection::vec(prop::option::weighted(0.8, coarse), 0..5)
}

proptest! {
    /// What a node skips, one other node has and does not skip.
    #[test]
    fn each_record_is_searched(states in states(), failed in prop::collection::btree_set(0..4_usize, 0..3)) {
        let division = Division::new(states.clone(), PERIOD);
        let bits = states.iter().flatten().map(|state| state.interval_bits).max().unwrap_or(0);
        let states: Vec<_> = states.into_iter().map(|state| state.map(|state| state.coarse(bits))).collect();
        let shares: Vec<Option<SearchShare>> = (0..states.len()).map(|node| division.share_of(node)).collect();
        let skips = |node: usize, at: (ReplicaGroup, Interval)| {
            let runs = shares[node].iter().flat_map(|share| &share.skipped);
            runs.filter(|run| run.group == at.0 && run.first <= at.1 && at.1 <= run.last).count()
        };
        for (node, state) in states.iter().enumerate() {
            for (at, sum) in state.iter().flat_map(|state| &state.sums) {
                prop_assert!(skips(node, *at) <= 1);
                let has_equal = |other: usize| states[other].as_ref().is_some_and(|state| state.sums.get(at) == Some(sum));
                let searching = (0..states.len()).filter(|other| has_equal(*other) && skips(*other, *at) == 0);
                prop_assert!(searching.count() >= 1, "{at:?} is skipped by all");
            }
            // A run has the sum of all that the node has in it.
            for run in shares[node].iter().flat_map(|share| &share.skipped) {
                let own = state.as_ref().unwrap().sums.range((run.group, run.first)..=(run.group, run.last));
                prop_assert_eq!(own.map(|(_, sum)| sum.0).sum::<u128>(), run.sum.0);
                prop_assert!(division.intervals().contains(run.first) && division.intervals().contains(run.last));
            }
        }
        for node in failed.iter().copied() {
            let owned = division.owned_by(node);
            let reassigned = division.reassign(&owned, |node| failed.contains(&node));
            let has_other = |number: &usize| division.runs[*number].holders.iter().any(|holder| !failed.contains(holder));
            let mut all: Vec<usize> = reassigned.iter().flat_map(|reassigned| reassigned.runs.clone()).collect();
            all.sort_unstable();
            prop_assert!(all.iter().eq(owned.iter().filter(|run| has_other(run))));
            for Reassigned { node, runs, .. } in reassigned {
                prop_assert!(!failed.contains(&node));
                prop_assert!(runs.iter().all(|number| division.runs[*number].holders.contains(&node)));
            }
        }
    }
}
