//! Which other stores are live, awaited or lost, by their gossiped facts and this node's monotonic clock.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::Id;

use crate::peers::PeerStore;

/// The known state of a store.
#[derive(Clone, Copy, Debug)]
struct MonitoredStore {
    incarnation: Id,
    /// Of its last facts.
    fingerprint: u64,
    held_bytes: u64,
    /// Whether it accepts replicas.
    accepts_replicas: bool,
    /// The last known size, also while it is down.
    reported_bytes: u64,
    /// The uptime since which it is down.
    down_since: Option<Duration>,
    /// It was down for long enough, or replaced.
    is_lost: bool,
    /// A pass has completed since the loss.
    is_re_replicated: bool,
    /// A pass without under-replicated records has completed since the loss, whatever other stores were lost.
    has_clean_pass: bool,
    /// After a restart: the uptime until which its size is awaited, and the size before.
    size_check: Option<(Duration, u64)>,
}

impl MonitoredStore {
    /// Whether it is lost and not re-replicated.
    fn is_unrepaired(&self) -> bool {
        self.is_lost && !self.is_re_replicated
    }
}

/// The other stores at one time, and what has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreChanges {
    pub(crate) live: Vec<PeerStore>,
    /// A store is down and may return.
    pub(crate) is_awaiting: bool,
    /// More records may be under-replicated than before.
    pub(crate) has_loss: bool,
    /// One more store accepts replicas.
    pub(crate) has_gain: bool,
    /// A store has returned with less than half of its data.
    has_shrunk: bool,
    /// Bytes of emptied stores, and of forgotten ones.
    pub(crate) lost_bytes: u64,
}

/// Tracks the other stores.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreMonitor(BTreeMap<Id, MonitoredStore>);

impl StoreMonitor {
    /// Updates the state with all known stores.
    pub(crate) fn update(&mut self, peer_stores: Vec<PeerStore>, now: Duration, lost_after: Duration) -> StoreChanges {
        let mut seen = StoreChanges::default();
        for peer_store in &peer_stores {
            self.observe(peer_store, now, lost_after, &mut seen);
        }
        if seen.has_shrunk {
            seen.has_loss = true;
            // It may have had the replicas by which another store was re-replicated.
            self.0.values_mut().for_each(|known| known.has_clean_pass = false);
        }
        let is_known = |node: &Id| peer_stores.iter().any(|peer_store| peer_store.peer.node == *node);
        self.0.retain(|node, known| {
            if is_known(node) {
                return true;
            }
            // It was forgotten.
            known.down_since.get_or_insert(now);
            // If several stores were lost at once, the rest may now be few enough to be re-replicated.
            if known.is_unrepaired() {
                seen.has_loss = true;
                seen.lost_bytes += known.reported_bytes;
            }
            !known.is_lost
        });
        for (node, known) in &mut self.0 {
            let Some(since) = known.down_since else { continue };
            let is_replaced =
                peer_stores.iter().any(|peer_store| peer_store.peer.node == *node && peer_store.is_replaced);
            // A replaced disk does not return, so it is lost at once.
            if !known.is_lost && (is_replaced || now.saturating_sub(since) >= lost_after) {
                known.is_lost = true;
                seen.has_loss = true;
            }
            seen.is_awaiting |= !known.is_lost;
        }
        seen.live = peer_stores.into_iter().filter(|peer_store| peer_store.is_live).collect();
        seen
    }

    fn observe(&mut self, peer_store: &PeerStore, now: Duration, lost_after: Duration, seen: &mut StoreChanges) {
        let is_new = !self.0.contains_key(&peer_store.peer.node);
        let known = self.0.entry(peer_store.peer.node).or_insert(MonitoredStore {
            incarnation: peer_store.incarnation,
            fingerprint: peer_store.fingerprint,
            held_bytes: 0,
            accepts_replicas: peer_store.accepts_replicas,
            reported_bytes: 0,
            down_since: None,
            is_lost: false,
            is_re_replicated: false,
            has_clean_pass: false,
            size_check: None,
        });
        let has_new_facts = std::mem::replace(&mut known.fingerprint, peer_store.fingerprint) != peer_store.fingerprint;
        if !peer_store.is_live {
            known.reported_bytes = peer_store.peer.held_bytes;
            known.down_since.get_or_insert(now);
            if has_new_facts {
                // It was live for another node since, and may have accepted records.
                seen.has_loss |= known.is_lost;
                known.has_clean_pass = false;
            }
            return;
        }
        seen.has_gain |= is_new || known.is_lost || (peer_store.accepts_replicas && !known.accepts_replicas);
        (known.down_since, known.is_lost, known.is_re_replicated, known.has_clean_pass) = (None, false, false, false);
        known.accepts_replicas = peer_store.accepts_replicas;
        if known.incarnation != peer_store.incarnation {
            known.incarnation = peer_store.incarnation;
            // The first facts do not include the size; it is awaited for a limited time.
            known.size_check.get_or_insert((now + lost_after, known.held_bytes));
        }
        match known.size_check {
            Some((due, before)) if peer_store.has_reported_size || now >= due => {
                // Other stores may have refilled it by now.
                let opened_bytes = peer_store.stored_bytes_at_open.unwrap_or(u64::MAX).min(peer_store.peer.held_bytes);
                if opened_bytes < before / 2 {
                    seen.has_shrunk = true;
                    seen.lost_bytes += before - opened_bytes;
                }
                known.size_check = None;
                known.held_bytes = peer_store.peer.held_bytes;
            }
            Some(_) => {}
            None => known.held_bytes = peer_store.peer.held_bytes,
        }
        known.reported_bytes = known.held_bytes;
    }

    /// The lost stores.
    pub(crate) fn lost(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_lost).map(|(node, _)| *node).collect()
    }

    /// A pass has completed without under-replicated records: the lost stores are clean for this store.
    pub(crate) fn record_clean_pass(&mut self) {
        self.0.values_mut().filter(|known| known.is_lost).for_each(|known| known.has_clean_pass = true);
    }

    /// Fingerprints of lost stores that this store can do without, in the order of their ids.
    pub(crate) fn re_replicated_fingerprints(&self) -> Vec<u64> {
        self.0.values().filter(|known| known.is_lost && known.has_clean_pass).map(|known| known.fingerprint).collect()
    }

    /// Stores that are down and may return.
    pub(crate) fn awaited(&self) -> Vec<Id> {
        let awaited = self.0.iter().filter(|(_, known)| known.down_since.is_some() && !known.is_lost);
        awaited.map(|(node, _)| *node).collect()
    }

    /// Lost stores that are not re-replicated.
    pub(crate) fn unrepaired(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_unrepaired()).map(|(node, _)| *node).collect()
    }

    /// Bytes of awaited and unrepaired stores.
    pub(crate) fn lost_bytes_max(&self) -> u64 {
        let down = self.0.values().filter(|known| known.down_since.is_some() && !known.is_re_replicated);
        down.map(|known| known.reported_bytes).sum()
    }

    /// A pass has completed: marks the lost stores as re-replicated. Returns false, and marks none, if as many stores were
    /// lost at once as the replication factor.
    pub(crate) fn mark_re_replicated(&mut self, replication_factor: usize) -> bool {
        let newly = self.0.values_mut().filter(|known| known.is_unrepaired());
        let newly: Vec<&mut MonitoredStore> = newly.collect();
        if newly.len() >= replication_factor {
            return false;
        }
        newly.into_iter().for_each(|known| known.is_re_replicated = true);
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;
    use crate::Peer;

    const LOST_AFTER: Duration = Duration::from_secs(60);

    fn node(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    /// Another store, of 1,000 bytes.
    pub(in crate::repair) fn peer_store(number: u64, is_live: bool) -> PeerStore {
        let address = "10.0.0.1:7659".parse().unwrap();
        let peer = Peer { node: node(number), address, held_bytes: 1_000, free_bytes: 1 };
        PeerStore {
            peer,
            incarnation: node(1),
            fingerprint: 1,
            is_live,
            is_replaced: false,
            has_reported_size: false,
            stored_bytes_at_open: None,
            accepts_replicas: true,
        }
    }

    #[derive(Default)]
    struct MonitorTest {
        monitor: StoreMonitor,
        now: u64,
    }

    impl MonitorTest {
        /// Updates after `seconds` seconds: whether a store is awaited, has a loss, has a gain.
        fn after(&mut self, seconds: u64, peer_stores: &[PeerStore]) -> (bool, bool, bool) {
            self.now += seconds;
            let seen = self.monitor.update(peer_stores.to_vec(), Duration::from_secs(self.now), LOST_AFTER);
            (seen.is_awaiting, seen.has_loss, seen.has_gain)
        }
    }

    #[test]
    fn a_down_store_is_awaited_and_then_lost_once() {
        let mut bench = MonitorTest::default();
        assert_eq!(bench.after(0, &[peer_store(1, true)]), (false, false, true));
        assert_eq!(bench.after(1, &[peer_store(1, true)]), (false, false, false));
        assert_eq!(bench.after(1, &[peer_store(1, false)]), (true, false, false));
        assert_eq!(bench.after(59, &[peer_store(1, false)]), (true, false, false));
        assert_eq!(bench.after(1, &[peer_store(1, false)]), (false, true, false));
        assert_eq!(bench.monitor.lost(), [node(1)]);
        assert_eq!(bench.after(1, &[peer_store(1, false)]), (false, false, false));
        assert_eq!(bench.after(1, &[peer_store(1, true)]), (false, false, true));
        assert!(bench.monitor.lost().is_empty());
        assert_eq!(bench.after(1, &[peer_store(1, false)]), (true, false, false), "the wait starts again");
    }

    #[test]
    fn a_forgotten_store_is_lost() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        assert_eq!(bench.after(1, &[]), (true, false, false));
        assert_eq!(bench.after(60, &[]), (false, true, false));
    }

    #[test]
    fn a_store_that_returns_with_less_is_a_loss() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        let with = |held_bytes| {
            let mut back = PeerStore { incarnation: node(2), ..peer_store(1, true) };
            back.peer.held_bytes = held_bytes;
            back
        };
        assert_eq!(bench.after(1, &[with(0)]), (false, false, false), "its size is not known yet");
        assert_eq!(bench.after(60, &[with(499)]), (false, true, false));
        assert_eq!(bench.after(60, &[with(499)]), (false, false, false));
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        bench.after(1, &[with(0)]);
        assert_eq!(bench.after(60, &[with(900)]), (false, false, false));
    }

    #[test]
    fn a_replaced_store_is_lost_at_once() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        bench.after(1, &[peer_store(1, false)]);
        let replaced = PeerStore { is_replaced: true, ..peer_store(1, false) };
        assert_eq!(bench.after(1, &[replaced, peer_store(2, true)]), (false, true, true));
        assert_eq!(bench.monitor.lost(), [node(1)]);
        assert_eq!(bench.after(1, &[replaced, peer_store(2, true)]), (false, false, false), "it is lost once");
        // Its disk was mounted on another machine.
        bench.after(1, &[peer_store(1, true), peer_store(2, true)]);
        assert!(bench.monitor.lost().is_empty());
    }

    #[test]
    fn an_emptied_store_is_a_loss_when_its_size_is_known() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        let with = |held_bytes, has_counted| {
            let mut back = PeerStore { incarnation: node(2), has_reported_size: has_counted, ..peer_store(1, true) };
            back.peer.held_bytes = held_bytes;
            back
        };
        assert_eq!(bench.after(1, &[with(0, false)]), (false, false, false), "its size is not known yet");
        assert_eq!(bench.after(1, &[with(0, true)]), (false, true, false));
        assert_eq!(bench.after(60, &[with(0, true)]), (false, false, false), "it is a loss once");
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        assert_eq!(bench.after(1, &[with(1_000, true)]), (false, false, false), "a restart alone is no loss");
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        let filled = PeerStore { stored_bytes_at_open: Some(0), ..with(900, true) };
        assert_eq!(bench.after(1, &[filled]), (false, true, false), "other stores have refilled it");
        assert_eq!(bench.after(1, &[filled]), (false, false, false), "it is a loss once");
    }

    #[test]
    fn a_clean_pass_covers_a_lost_store_until_it_has_new_facts() {
        let mut bench = MonitorTest::default();
        let store = |fingerprint, is_live| PeerStore { fingerprint, ..peer_store(1, is_live) };
        bench.after(0, &[store(1, true), peer_store(2, true)]);
        bench.after(1, &[store(2, false), peer_store(2, true)]);
        bench.monitor.record_clean_pass();
        assert!(bench.monitor.re_replicated_fingerprints().is_empty(), "it may return");
        bench.after(60, &[store(2, false), peer_store(2, true)]);
        assert!(bench.monitor.re_replicated_fingerprints().is_empty(), "no pass since the loss");
        bench.monitor.record_clean_pass();
        assert_eq!(bench.monitor.re_replicated_fingerprints(), [2]);
        assert_eq!(
            bench.after(1, &[store(3, false), peer_store(2, true)]),
            (false, true, false),
            "another node has newer facts"
        );
        assert!(bench.monitor.re_replicated_fingerprints().is_empty());
        bench.monitor.record_clean_pass();
        assert_eq!(bench.monitor.re_replicated_fingerprints(), [3]);
        let shrunk = PeerStore {
            incarnation: node(2),
            peer: Peer { held_bytes: 10, ..peer_store(2, true).peer },
            ..peer_store(2, true)
        };
        bench.after(1, &[store(3, false), shrunk]);
        assert_eq!(bench.monitor.re_replicated_fingerprints(), [3]);
        assert_eq!(bench.after(60, &[store(3, false), shrunk]), (false, true, false));
        assert!(bench.monitor.re_replicated_fingerprints().is_empty(), "it may have had the other replicas");
        bench.monitor.record_clean_pass();
        bench.after(1, &[store(4, true), shrunk]);
        assert!(bench.monitor.re_replicated_fingerprints().is_empty(), "it has returned");
        bench.after(1, &[store(4, false), shrunk]);
        bench.after(60, &[store(4, false), shrunk]);
        assert!(bench.monitor.re_replicated_fingerprints().is_empty(), "it is down again");
    }

    #[test]
    fn a_store_that_accepts_replicas_again_is_a_gain() {
        let mut bench = MonitorTest::default();
        let store = |accepts_replicas| PeerStore { accepts_replicas, ..peer_store(1, true) };
        bench.after(0, &[store(true)]);
        assert_eq!(bench.after(1, &[store(false)]), (false, false, false));
        assert_eq!(bench.after(1, &[store(true)]), (false, false, true));
        assert_eq!(bench.after(1, &[store(true)]), (false, false, false));
    }

    #[test]
    fn as_many_lost_stores_as_replicas_are_not_re_replicated() {
        let mut bench = MonitorTest::default();
        let both = [peer_store(1, false), peer_store(2, false)];
        bench.after(0, &[peer_store(1, false), peer_store(2, true)]);
        bench.after(60, &[peer_store(1, false), peer_store(2, true)]);
        assert!(bench.monitor.mark_re_replicated(2), "one of them");
        bench.after(1, &both);
        bench.after(60, &both);
        assert!(bench.monitor.mark_re_replicated(2), "a second loss after the first repair");
        let mut bench = MonitorTest::default();
        bench.after(0, &both);
        bench.after(60, &both);
        assert!(!bench.monitor.mark_re_replicated(2));
        assert!(bench.monitor.mark_re_replicated(3));
        let mut bench = MonitorTest::default();
        bench.after(0, &both);
        bench.after(60, &both);
        assert_eq!(bench.after(1, &both[..1]), (false, true, false), "one of them is forgotten");
        assert!(bench.monitor.mark_re_replicated(2));
    }
}
