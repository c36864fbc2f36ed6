//! Which holder replicates an under-replicated record: a pure function of the producer and the ids of its holders.
//!
//! The responsible store is the first holder in an order by a hash of producer and node id. So normally one store acts, and
//! over many producers the work is even. If two act on different information, the extra replica is harmless.

use std::collections::BTreeMap;

use bucksaw_record::{Id, Producer};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::id_set::IdSet;

/// Under-replicated records with the same holders.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnderReplicatedIds {
    /// The holders, by id.
    pub(crate) holders: Vec<Id>,
    /// The records.
    pub(crate) ids: IdSet,
}

/// The records of `own` that fewer than `replication_factor` stores hold and that `me` is responsible for, or all of them if the
/// range `is_claimed`. `others` are all other stores, each with those of `own` that it holds.
pub(crate) fn under_replicated(
    me: Id,
    own: &IdSet,
    others: &[(Id, IdSet)],
    replication_factor: usize,
    is_claimed: bool,
) -> Vec<UnderReplicatedIds> {
    let mut by_holders: BTreeMap<Vec<Id>, IdSet> = BTreeMap::from([(vec![me], own.clone())]);
    for (node, held) in others {
        let mut next: BTreeMap<Vec<Id>, IdSet> = BTreeMap::new();
        for (holders, ids) in by_holders {
            let (with, without) = (ids.intersection(held), ids.difference(held));
            if !without.is_empty() {
                next.insert(holders.clone(), without);
            }
            // Fully replicated records are dropped.
            if !with.is_empty() && holders.len() + 1 < replication_factor {
                next.insert([holders, vec![*node]].concat(), with);
            }
        }
        by_holders = next;
    }
    let is_done = |(holders, ids): &(Vec<Id>, IdSet)| holders.len() >= replication_factor || ids.is_empty();
    let groups = by_holders.into_iter().filter(|group| !is_done(group));
    let mine = groups.map(|(mut holders, ids)| {
        if is_claimed {
            holders.sort_unstable();
            return UnderReplicatedIds { holders, ids };
        }
        let mut mine = IdSet::default();
        let producers = ids.into_producers();
        producers
            .filter(|(producer, _)| responsible_store(*producer, &holders) == Some(me))
            .for_each(|(_, ids)| mine.union_with(&ids));
        holders.sort_unstable();
        UnderReplicatedIds { holders, ids: mine }
    });
    mine.filter(|group| !group.ids.is_empty()).collect()
}

/// The responsible store among the holders of a producer's records.
pub(crate) fn responsible_store(producer: Producer, holders: &[Id]) -> Option<Id> {
    holders.iter().copied().min_by_key(|node| (rank(producer, *node), *node))
}

/// The mixer of splitmix64 over both, which is the same on every machine and in every version.
fn rank(producer: Producer, node: Id) -> u64 {
    let (high, low) = ((node.bits() >> 64) as u64, node.bits() as u64);
    let mix = |bits| SplitMix64::seed_from_u64(bits).next_u64();
    mix(mix(mix(producer.bits()) ^ high) ^ low)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bucksaw_record::Millis;
    use proptest::prelude::*;

    use super::super::id_set::tests::ids;
    use super::*;

    fn node(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    #[test]
    fn all_versions_agree_on_the_order() {
        assert_eq!(rank(Producer::new(7), Id::from_bits((5 << 64) | 6)), 0x4dc5_ade4_abf1_7489);
    }

    #[test]
    fn responsibility_is_spread_evenly() {
        let nodes: Vec<Id> = (0..4).map(node).collect();
        let mut times = [0; 4];
        for producer in 0..4_000 {
            let one = responsible_store(Producer::random(producer * 977), &nodes).unwrap();
            times[one.producer().bits() as usize] += 1;
        }
        assert!(times.iter().all(|times| (900..1_100).contains(times)), "{times:?}");
    }

    #[test]
    fn a_claimed_range_stays_with_its_store() {
        let own = ids(&(0..50).map(|producer| (producer, 1)).collect::<Vec<_>>());
        let others = [(node(2), own.clone())];
        let count = |is_claimed| {
            under_replicated(node(1), &own, &others, 3, is_claimed).iter().map(|group| group.ids.len()).sum::<u64>()
        };
        assert!((10..40).contains(&count(false)), "{}", count(false));
        assert_eq!(count(true), 50);
    }

    type RecordSet = BTreeSet<(u64, u32)>;

    proptest! {
        /// Compares the result for random stores with the rule applied record by record.
        #[test]
        fn each_record_has_one_responsible_holder(
            stores in prop::collection::vec(prop::collection::btree_set((0_u64..3, 0_u32..12), 0..30), 1..5),
            copies in 1_usize..4,
        ) {
            let set = |of: &RecordSet| ids(&of.iter().copied().collect::<Vec<_>>());
            let mut seen: Vec<((u64, u32), Vec<Id>)> = Vec::new();
            for (me, own) in stores.iter().enumerate() {
                let others: Vec<(Id, IdSet)> = (0..).zip(&stores).filter(|(at, _)| *at != me as u64)
                    .map(|(at, held)| (node(at), set(own).intersection(&set(held)))).collect();
                for UnderReplicatedIds { holders, ids } in under_replicated(node(me as u64), &set(own), &others, copies, false) {
                    prop_assert!(holders.contains(&node(me as u64)));
                    let records = own.iter().filter(|(producer, sequence)| {
                        ids.contains(Id::new(Millis(0), Producer::new(*producer), *sequence))
                    });
                    seen.extend(records.map(|record| (*record, holders.clone())));
                }
            }
            seen.sort();
            let mut all: Vec<((u64, u32), Vec<Id>)> = Vec::new();
            for record in stores.iter().flatten().collect::<BTreeSet<_>>() {
                let holders: Vec<Id> =
                    (0..).zip(&stores).filter(|(_, held)| held.contains(record)).map(|(at, _)| node(at)).collect();
                if holders.len() < copies {
                    all.push((*record, holders));
                }
            }
            // Each under-replicated record occurs once.
            prop_assert_eq!(seen, all);
        }
    }
}
