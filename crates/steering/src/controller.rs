//! Evaluates the load of a node once a second, and sets the policy and budget of its [`LoadShedder`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bucksaw_record::Id;

use crate::level::{IngestRates, LevelBounds, LoadLevel, LoadSample};
use crate::policy::{IngestPeer, NodeLoad, RedirectPolicy};
use crate::rebalancer::{Lead, Rebalancer};
use crate::shedder::LoadShedder;

/// The default of the busy rate, in bytes per second.
pub const BUSY_BYTES_PER_SECOND_DEFAULT: u64 = 16 << 20;

/// The published rate moves by this part of the way per second.
const RATE_DIVISOR: i128 = 4;

/// The smoothed load of a node moves by this part of the way per second.
const SMOOTHED_LOAD_DIVISOR: i128 = 16;

/// From this level on a node refuses clients if it is within the refusal quota.
const REFUSE_LEVEL_MIN: u8 = 2;

/// One in this number of ingest nodes may refuse clients at once.
const REFUSING_ONE_IN: usize = 3;

/// Seconds within the refusal quota before a node refuses. Views of the cluster differ for a moment after a change.
const REFUSE_AFTER_SECONDS: u32 = 3;

/// Follows the load of a node, second by second.
#[derive(Debug, Default)]
pub struct LoadController {
    busy_bytes_per_second: u64,
    last_sample: Option<LoadSample>,
    bytes_per_second: u64,
    level: LoadLevel,
    quota_seconds: u32,
    /// Smoothed loads of all ingest nodes, this one included.
    smoothed: BTreeMap<Id, u64>,
    rebalancer: Rebalancer,
}

impl LoadController {
    /// A controller of a node that is never busy below this ingest rate, regardless of the rates of other nodes. Below a
    /// [`BUSY_FRACTION`](crate::BUSY_FRACTION)th of it no clients are redirected.
    pub fn new(busy_bytes_per_second: u64) -> Self {
        Self { busy_bytes_per_second, ..Self::default() }
    }

    /// Evaluates the last second of node `me`; returns the load to publish.
    pub fn step(&mut self, me: Id, sample: LoadSample, peers: Vec<IngestPeer>, shedder: &LoadShedder) -> NodeLoad {
        let before = self.last_sample.replace(sample).unwrap_or(sample);
        let accepted = sample.accepted_bytes.saturating_sub(before.accepted_bytes);
        self.bytes_per_second = approach(self.bytes_per_second, accepted, RATE_DIVISOR);
        let loads =
            || peers.iter().map(|peer| (peer.node, peer.load.bytes_per_second)).chain([(me, self.bytes_per_second)]);
        let mean = mean(loads().map(|(_, rate)| rate));
        self.smoothed = loads().map(|(node, rate)| (node, smoothed_load(&self.smoothed, node, rate))).collect();

        let rates = IngestRates { own: self.bytes_per_second, mean, busy: self.busy_bytes_per_second };
        let level = self.level.step(LevelBounds::new(&sample, &before, rates));
        let load = NodeLoad { level, bytes_per_second: self.bytes_per_second, connections: shedder.connections() };
        self.quota_seconds = if is_within_quota(me, &load, &peers) { self.quota_seconds.saturating_add(1) } else { 0 };
        let may_refuse = self.quota_seconds >= REFUSE_AFTER_SECONDS;

        let lead = self.lead(me, &load, &peers, mean);
        let offer_min = match level {
            0 => None,
            // At least one client is disconnected.
            3.. if may_refuse => Some((load.bytes_per_second / shedder.redirectable_connections().max(1)).max(1)),
            _ => Some(0),
        };
        shedder.set_policy(RedirectPolicy { load, may_refuse, mean_bytes_per_second: mean, peers });
        if let Some(budget) = self.rebalancer.step(rates, lead, offer_min, shedder.is_budget_wasted()) {
            shedder.set_redirect_budget(budget);
        }
        load
    }

    fn lead(&self, me: Id, load: &NodeLoad, peers: &[IngestPeer], mean_rate: u64) -> Lead {
        let smoothed = |node| self.smoothed.get(&node).copied().unwrap_or_default();
        let (own, own_smoothed) = (load.bytes_per_second, smoothed(me));
        let targets = || peers.iter().filter(|peer| peer.load.level <= load.level);
        let least = targets().map(|peer| peer.load.bytes_per_second).min();
        let least_smoothed = targets().map(|peer| smoothed(peer.node)).min();
        let excess_smoothed = own_smoothed.saturating_sub(mean(self.smoothed.values().copied()));
        Lead {
            current: least.map_or(0, |least| own.saturating_sub(least)),
            smoothed: least_smoothed.map_or(0, |least| own_smoothed.saturating_sub(least)),
            excess: own.saturating_sub(mean_rate).min(excess_smoothed),
        }
    }
}

/// Whether the node is one of the most loaded nodes, which may refuse clients. All nodes rank by the same published loads.
fn is_within_quota(me: Id, own: &NodeLoad, peers: &[IngestPeer]) -> bool {
    let rank = |node: Id, load: &NodeLoad| (Reverse(load.level), Reverse(load.bytes_per_second), node);
    let more_loaded = peers.iter().filter(|peer| rank(peer.node, &peer.load) < rank(me, own)).count();
    own.level >= REFUSE_LEVEL_MIN && more_loaded < (peers.len() + 1) / REFUSING_ONE_IN
}

/// A node that was not present before starts with its rate, so that a new node has its low load at once.
fn smoothed_load(before: &BTreeMap<Id, u64>, node: Id, rate: u64) -> u64 {
    before.get(&node).map_or(rate, |before| approach(*before, rate, SMOOTHED_LOAD_DIVISOR))
}

/// Moves an average by one `divisor`-th of the way to `now`, by at least 1, so that it reaches a constant value.
fn approach(before: u64, now: u64, divisor: i128) -> u64 {
    let distance = i128::from(now) - i128::from(before);
    let step = distance / divisor;
    let step = if step == 0 { distance.signum() } else { step };
    u64::try_from(i128::from(before) + step).unwrap_or(now)
}

fn mean(rates: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = rates.fold((0_u128, 0_u128), |(sum, count), rate| (sum + u128::from(rate), count + 1));
    u64::try_from(sum / count.max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};
    use proptest::prelude::*;

    use super::*;

    fn id(number: usize) -> Id {
        Id::new(Millis(number as u64), Producer::new(1), 0)
    }

    /// The nodes that are within the quota, given the level and rate of each.
    fn refusing(loads: &[(u8, u64)]) -> Vec<usize> {
        let peer = |(number, (level, bytes_per_second)): (usize, &(u8, u64))| IngestPeer {
            node: id(number),
            load: NodeLoad { level: *level, bytes_per_second: *bytes_per_second, connections: 0 },
            addresses: Vec::new(),
        };
        let nodes: Vec<IngestPeer> = loads.iter().enumerate().map(peer).collect();
        let is_refusing = |me: &IngestPeer| {
            let peers: Vec<IngestPeer> = nodes.iter().filter(|peer| peer.node != me.node).cloned().collect();
            is_within_quota(me.node, &me.load, &peers)
        };
        nodes.iter().enumerate().filter(|(_, node)| is_refusing(node)).map(|(number, _)| number).collect()
    }

    #[test]
    fn the_most_loaded_nodes_refuse_within_the_quota() {
        let check = |loads: &[(u8, u64)], want: &[usize]| assert_eq!(refusing(loads), want, "{loads:?}");
        check(&[(3, 9)], &[]);
        check(&[(3, 9), (0, 0)], &[]);
        check(&[(3, 9), (0, 0), (0, 0)], &[0]);
        check(&[(1, 9), (0, 0), (0, 0)], &[]);
        check(&[(2, 9), (3, 1), (2, 5)], &[1]);
        check(&[(2, 9), (2, 9), (2, 9)], &[0]);
        check(&[(2, 5), (2, 9), (0, 0), (2, 7), (2, 8), (1, 10)], &[1, 4]);
    }

    #[test]
    fn an_average_reaches_a_constant_value() {
        let mut rate = 0;
        let rates = [0; 4].map(|_| {
            rate = approach(rate, 1_000, 4);
            rate
        });
        assert_eq!(rates, [250, 437, 577, 682]);
        for want in [1_000, 0, 3] {
            for _ in 0..60 {
                rate = approach(rate, want, 4);
            }
            assert_eq!(rate, want);
        }
        assert_eq!(approach(u64::MAX, 0, 4), u64::MAX - u64::MAX / 4);
        assert_eq!((mean([].into_iter()), mean([u64::MAX, u64::MAX - 2].into_iter())), (0, u64::MAX - 1));
    }

    #[test]
    fn a_burst_changes_a_smoothed_load_little_and_a_new_node_has_its_load_at_once() {
        let mut loads = BTreeMap::from([(id(1), 1_000)]);
        let step = |loads: &mut BTreeMap<Id, u64>, rates: &[(usize, u64)]| {
            *loads = rates.iter().map(|(node, rate)| (id(*node), smoothed_load(loads, id(*node), *rate))).collect();
        };
        (0..4).for_each(|_| step(&mut loads, &[(1, 0), (2, 0)]));
        assert_eq!(loads, BTreeMap::from([(id(1), 774), (id(2), 0)]));
        // A node that was absent starts again.
        step(&mut loads, &[(2, 0)]);
        step(&mut loads, &[(1, 50), (2, 160)]);
        assert_eq!(loads, BTreeMap::from([(id(1), 50), (id(2), 10)]));
    }

    proptest! {
        #[test]
        fn at_most_a_third_of_the_nodes_refuse(loads in prop::collection::vec((0_u8..4, 0_u64..4), 0..20)) {
            let refusing = refusing(&loads);
            let candidates = loads.iter().filter(|(level, _)| *level >= REFUSE_LEVEL_MIN).count();
            prop_assert!(refusing.len() * 3 <= loads.len());
            prop_assert_eq!(refusing.len(), candidates.min(loads.len() / REFUSING_ONE_IN));
            let least = refusing.iter().map(|number| loads[*number]).min();
            for (number, load) in loads.iter().enumerate() {
                prop_assert!(refusing.contains(&number) || load.0 < REFUSE_LEVEL_MIN || least.is_none_or(|least| *load <= least));
            }
        }
    }
}
