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
