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
    fn is_unrepaired(&self) -> bool {
        self.is_lost && !self.is_re_replicated
    }
}

/// The other stores at one time, and the changes since the last time.
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

    pub(crate) fn awaited(&self) -> Vec<Id> {
        let awaited = self.0.iter().filter(|(_, known)| known.down_since.is_some() && !known.is_lost);
        awaited.map(|(node, _)| *node).collect()
    }

    pub(crate) fn unrepaired(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_unrepaired()).map(|(node, _)| *node).collect()
    }

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
pub(super) mod tests;
