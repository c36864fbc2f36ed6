//! Which stores are there, which may come back, and which are lost: by what is gossiped of them, and by this node's own
//! uptime, which no clock that is set can move.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::Id;

use crate::peers::PeerStore;

/// What is remembered of a store.
#[derive(Clone, Copy, Debug)]
struct MonitoredStore {
    incarnation: Id,
    /// What it has told.
    fingerprint: u64,
    held_bytes: u64,
    /// Whether it takes copies.
    accepts_replicas: bool,
    /// What it told last that it holds, be it now or before.
    reported_bytes: u64,
    /// Since when it has not been there.
    down_since: Option<Duration>,
    /// It has been gone for long enough.
    is_lost: bool,
    /// A whole pass has gone over all records since.
    is_re_replicated: bool,
    /// One after which nothing was missing, whatever others were lost with it.
    has_clean_pass: bool,
    /// It was started anew: when it is to be seen whether it has what it had, and how much that was.
    size_check: Option<(Duration, u64)>,
}

impl MonitoredStore {
    /// Whether it is lost, and what it had was not copied by others since.
    fn is_unrepaired(&self) -> bool {
        self.is_lost && !self.is_re_replicated
    }
}

/// The other stores at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreChanges {
    pub(crate) live: Vec<PeerStore>,
    /// Some are gone and may come back: nothing can be said of what they hold.
    pub(crate) is_awaiting: bool,
    /// Copies may be missing that were not before.
    pub(crate) has_loss: bool,
    /// There is one more to take copies.
    pub(crate) has_gain: bool,
    /// One came back with much less than it had.
    has_shrunk: bool,
    /// Bytes that are gone with stores of which nothing will be known any more.
    pub(crate) lost_bytes: u64,
}

/// Watches the stores.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreMonitor(BTreeMap<Id, MonitoredStore>);

impl StoreMonitor {
    /// Looks at all other stores as they are now.
    pub(crate) fn update(&mut self, peer_stores: Vec<PeerStore>, now: Duration, lost_after: Duration) -> StoreChanges {
        let mut seen = StoreChanges::default();
        for peer_store in &peer_stores {
            self.observe(peer_store, now, lost_after, &mut seen);
        }
        if seen.has_shrunk {
            seen.has_loss = true;
            // What was kept there may have been the copy that another store was made good by.
            self.0.values_mut().for_each(|known| known.has_clean_pass = false);
        }
        let is_there = |node: &Id| peer_stores.iter().any(|peer_store| peer_store.peer.node == *node);
        self.0.retain(|node, known| {
            if is_there(node) {
                return true;
            }
            // It was forgotten.
            known.down_since.get_or_insert(now);
            // When it was lost along with others, they may be few enough now to be made good.
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
            // A replaced disk does not come back, so nothing is gained by waiting for a restart.
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
        let is_news = std::mem::replace(&mut known.fingerprint, peer_store.fingerprint) != peer_store.fingerprint;
        if !peer_store.is_live {
            known.reported_bytes = peer_store.peer.held_bytes;
            known.down_since.get_or_insert(now);
            if is_news {
                // Somebody has heard of it since: it may have been back there, and have kept records.
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
            // Facts that do not count the store yet are waited for, with an upper bound.
            known.size_check.get_or_insert((now + lost_after, known.held_bytes));
        }
        match known.size_check {
            Some((due, before)) if peer_store.has_reported_size || now >= due => {
                // Others may have filled it again by now.
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

    /// Those that are lost.
    pub(crate) fn lost(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_lost).map(|(node, _)| *node).collect()
    }

    /// A pass has ended in which all that are lost now held nothing, and nothing was missing copies after it.
    pub(crate) fn record_clean_pass(&mut self) {
        self.0.values_mut().filter(|known| known.is_lost).for_each(|known| known.has_clean_pass = true);
    }

    /// The marks of those that need not come back for anything that this store holds, by their ids.
    pub(crate) fn re_replicated_fingerprints(&self) -> Vec<u64> {
        self.0.values().filter(|known| known.is_lost && known.has_clean_pass).map(|known| known.fingerprint).collect()
    }

    /// Those that are gone and may come back.
    pub(crate) fn awaited(&self) -> Vec<Id> {
        let awaited = self.0.iter().filter(|(_, known)| known.down_since.is_some() && !known.is_lost);
        awaited.map(|(node, _)| *node).collect()
    }

    /// Those that are lost, and not made good.
    pub(crate) fn unrepaired(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_unrepaired()).map(|(node, _)| *node).collect()
    }

    /// What those had that are awaited or open.
    pub(crate) fn lost_bytes_max(&self) -> u64 {
        let gone = self.0.values().filter(|known| known.down_since.is_some() && !known.is_re_replicated);
        gone.map(|known| known.reported_bytes).sum()
    }

    /// A pass has ended in which all that are lost now held nothing. Says whether that made them good: not when as many were
    /// lost at once as keep a record.
    pub(crate) fn mark_re_replicated(&mut self, copies: usize) -> bool {
        let newly = self.0.values_mut().filter(|known| known.is_unrepaired());
        let newly: Vec<&mut MonitoredStore> = newly.collect();
        if newly.len() >= copies {
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
        watch: StoreMonitor,
        now: u64,
    }

    impl MonitorTest {
        /// The stores after so many seconds more: whether one is awaited, there was a loss, and a gain.
        fn after(&mut self, seconds: u64, peer_stores: &[PeerStore]) -> (bool, bool, bool) {
            self.now += seconds;
            let seen = self.watch.update(peer_stores.to_vec(), Duration::from_secs(self.now), LOST_AFTER);
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
        assert_eq!(bench.watch.lost(), [node(1)]);
        assert_eq!(bench.after(1, &[peer_store(1, false)]), (false, false, false));
        assert_eq!(bench.after(1, &[peer_store(1, true)]), (false, false, true));
        assert!(bench.watch.lost().is_empty());
        assert_eq!(bench.after(1, &[peer_store(1, false)]), (true, false, false), "and from the beginning");
    }

    #[test]
    fn who_is_forgotten_is_lost_as_well() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        assert_eq!(bench.after(1, &[]), (true, false, false));
        assert_eq!(bench.after(60, &[]), (false, true, false));
    }

    #[test]
    fn who_comes_back_with_less_is_a_loss() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        let with = |held_bytes| {
            let mut back = PeerStore { incarnation: node(2), ..peer_store(1, true) };
            back.peer.held_bytes = held_bytes;
            back
        };
        assert_eq!(bench.after(1, &[with(0)]), (false, false, false), "it may not have looked yet");
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
        assert_eq!(bench.watch.lost(), [node(1)]);
        assert_eq!(bench.after(1, &[replaced, peer_store(2, true)]), (false, false, false), "it is lost once");
        // Its disk is mounted elsewhere after all.
        bench.after(1, &[peer_store(1, true), peer_store(2, true)]);
        assert!(bench.watch.lost().is_empty());
    }

    #[test]
    fn an_emptied_shelf_is_a_loss_when_it_is_counted() {
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        let with = |held_bytes, has_counted| {
            let mut back = PeerStore { incarnation: node(2), has_reported_size: has_counted, ..peer_store(1, true) };
            back.peer.held_bytes = held_bytes;
            back
        };
        assert_eq!(bench.after(1, &[with(0, false)]), (false, false, false), "it has not counted yet");
        assert_eq!(bench.after(1, &[with(0, true)]), (false, true, false));
        assert_eq!(bench.after(60, &[with(0, true)]), (false, false, false), "it is a loss once");
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        assert_eq!(bench.after(1, &[with(1_000, true)]), (false, false, false), "a mere restart is none");
        let mut bench = MonitorTest::default();
        bench.after(0, &[peer_store(1, true)]);
        let filled = PeerStore { stored_bytes_at_open: Some(0), ..with(900, true) };
        assert_eq!(bench.after(1, &[filled]), (false, true, false), "others have filled it again");
        assert_eq!(bench.after(1, &[filled]), (false, false, false), "it is a loss once");
    }

    #[test]
    fn who_was_walked_over_can_be_done_without_until_it_tells_anything() {
        let mut bench = MonitorTest::default();
        let told = |mark, is_live| PeerStore { fingerprint: mark, ..peer_store(1, is_live) };
        bench.after(0, &[told(1, true), peer_store(2, true)]);
        bench.after(1, &[told(2, false), peer_store(2, true)]);
        bench.watch.record_clean_pass();
        assert!(bench.watch.re_replicated_fingerprints().is_empty(), "it may come back");
        bench.after(60, &[told(2, false), peer_store(2, true)]);
        assert!(bench.watch.re_replicated_fingerprints().is_empty(), "nobody has walked since");
        bench.watch.record_clean_pass();
        assert_eq!(bench.watch.re_replicated_fingerprints(), [2]);
        assert_eq!(
            bench.after(1, &[told(3, false), peer_store(2, true)]),
            (false, true, false),
            "another has heard of it"
        );
        assert!(bench.watch.re_replicated_fingerprints().is_empty());
        bench.watch.record_clean_pass();
        assert_eq!(bench.watch.re_replicated_fingerprints(), [3]);
        let shrunk = PeerStore {
            incarnation: node(2),
            peer: Peer { held_bytes: 10, ..peer_store(2, true).peer },
            ..peer_store(2, true)
        };
        bench.after(1, &[told(3, false), shrunk]);
        assert_eq!(bench.watch.re_replicated_fingerprints(), [3]);
        assert_eq!(bench.after(60, &[told(3, false), shrunk]), (false, true, false));
        assert!(bench.watch.re_replicated_fingerprints().is_empty(), "what it lost may have been the other copy");
        bench.watch.record_clean_pass();
        bench.after(1, &[told(4, true), shrunk]);
        assert!(bench.watch.re_replicated_fingerprints().is_empty(), "it is back");
        bench.after(1, &[told(4, false), shrunk]);
        bench.after(60, &[told(4, false), shrunk]);
        assert!(bench.watch.re_replicated_fingerprints().is_empty(), "and gone again");
    }

    #[test]
    fn who_takes_copies_again_is_a_gain() {
        let mut bench = MonitorTest::default();
        let takes = |takes| PeerStore { accepts_replicas: takes, ..peer_store(1, true) };
        bench.after(0, &[takes(true)]);
        assert_eq!(bench.after(1, &[takes(false)]), (false, false, false));
        assert_eq!(bench.after(1, &[takes(true)]), (false, false, true));
        assert_eq!(bench.after(1, &[takes(true)]), (false, false, false));
    }

    #[test]
    fn as_many_as_there_are_copies_are_not_made_good() {
        let mut bench = MonitorTest::default();
        let both = [peer_store(1, false), peer_store(2, false)];
        bench.after(0, &[peer_store(1, false), peer_store(2, true)]);
        bench.after(60, &[peer_store(1, false), peer_store(2, true)]);
        assert!(bench.watch.mark_re_replicated(2), "one of them");
        bench.after(1, &both);
        bench.after(60, &both);
        assert!(bench.watch.mark_re_replicated(2), "one after the other");
        let mut bench = MonitorTest::default();
        bench.after(0, &both);
        bench.after(60, &both);
        assert!(!bench.watch.mark_re_replicated(2));
        assert!(bench.watch.mark_re_replicated(3));
        let mut bench = MonitorTest::default();
        bench.after(0, &both);
        bench.after(60, &both);
        assert_eq!(bench.after(1, &both[..1]), (false, true, false), "one of them is forgotten");
        assert!(bench.watch.mark_re_replicated(2));
    }
}
