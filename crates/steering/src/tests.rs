//! Decisions about clients, and a whole node with its loads.

use std::time::Duration;

use bucksaw_env::{Entropy, sim};
use bucksaw_record::{Id, Millis, Producer};
use prometheus_client::registry::Registry;

use crate::policy::TARGETS_MAX;
use crate::*;

const FAST: ListenerKind = ListenerKind::Fast;

fn entropy() -> impl Entropy {
    sim::Entropy::seeded(7)
}

fn id(number: usize) -> Id {
    Id::new(Millis(number as u64), Producer::new(1), 0)
}

/// A peer `n<number>` that listens for `fast`.
fn peer(number: usize, level: u8, bytes_per_second: u64, connections: u64) -> IngestPeer {
    IngestPeer {
        node: id(number),
        load: NodeLoad { level, bytes_per_second, connections },
        addresses: vec![(FAST, format!("n{number}:1"))],
    }
}

/// Idle peers of these levels.
fn peers(levels: &[u8]) -> Vec<IngestPeer> {
    levels.iter().enumerate().map(|(number, level)| peer(number, *level, 0, 0)).collect()
}

/// A node with 100 bytes per second, five connections and a redirect budget.
fn shedder(level: u8, may_refuse: bool, peers: Vec<IngestPeer>, budget: u64) -> LoadShedder {
    let shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let load = NodeLoad { level, bytes_per_second: 100, connections: 5 };
    shedder.set_policy(RedirectPolicy { load, may_refuse, mean_bytes_per_second: 0, peers });
    shedder.set_redirect_budget(budget);
    shedder
}

/// Checks a client that has sent at this rate since it connected, 10 s ago.
fn check_client(shedder: &LoadShedder, bytes_per_second: u64, entropy: &dyn Entropy) -> Option<RedirectDecision> {
    let mut client = ClientRate::new(Duration::ZERO);
    shedder.check_client(&mut client, Duration::from_secs(10), bytes_per_second.saturating_mul(10), FAST, entropy)
}

#[test]
fn new_clients_are_accepted_redirected_or_refused_by_level() {
    let entropy = entropy();
    let check = |level, may_refuse, levels: &[u8], want: &str| {
        let shedder = shedder(level, may_refuse, peers(levels), 100);
        let decision = shedder.admit(FAST, &entropy);
        let decision =
            decision.map_or("accepted".to_owned(), |it| format!("{} {}", it.kind.name(), it.targets.join(",")));
        let closed = if shedder.refuses_unredirectable(FAST) { ", lines closed" } else { "" };
        assert_eq!(format!("{decision}{closed}"), want, "{level} {may_refuse} {levels:?}");
        // No peer listens for HTTP.
        assert_eq!(shedder.admit(ListenerKind::Http, &entropy), None);
        assert!(!shedder.refuses_unredirectable(ListenerKind::Http));
    };
    check(0, false, &[0], "accepted");
    check(1, true, &[0], "suggested n0:1");
    check(1, true, &[1, 2], "accepted");
    check(2, false, &[1, 2], "suggested n0:1");
    check(2, true, &[2, 1], "refused n1:1");
    check(2, true, &[], "accepted");
    check(3, false, &[2], "suggested n0:1");
    check(3, true, &[2], "refused n0:1, lines closed");
    check(3, true, &[3, 3], "accepted");
}

#[test]
fn connected_clients_are_redirected_by_level() {
    let entropy = entropy();
    let check = |level, may_refuse, levels: &[u8], want: Option<RedirectKind>, failover_targets: usize| {
        let shedder = shedder(level, may_refuse, peers(levels), 100);
        assert_eq!(check_client(&shedder, 50, &entropy).map(|decision| decision.kind), want, "{level} {levels:?}");
        let failover = shedder.failover(FAST, &entropy);
        assert!(failover.iter().all(|failover| failover.kind == RedirectKind::Disconnected));
        assert_eq!(failover.map_or(0, |failover| failover.targets.len()), failover_targets);
    };
    check(1, true, &[0], Some(RedirectKind::Suggested), 1);
    check(3, false, &[0], Some(RedirectKind::Suggested), 1);
    check(3, true, &[0, 1], Some(RedirectKind::Disconnected), 1);
    check(3, true, &[3, 3], None, 2);
    check(0, false, &[2; 5], None, TARGETS_MAX);
    check(0, false, &[], None, 0);
}

#[test]
fn targets_are_weighted_by_spare_capacity() {
    let entropy = entropy();
    let shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    // A mean of 16,000 gives each peer a weight of 1,001 and its distance below the mean.
    shedder.set_policy(RedirectPolicy {
        load: NodeLoad { level: 1, ..NodeLoad::default() },
        mean_bytes_per_second: 16_000,
        peers: vec![peer(0, 0, 16_000, 0), peer(1, 0, 0, 0), peer(2, 0, 14_000, 0)],
        ..RedirectPolicy::default()
    });
    let mut first = [0; 3];
    for _ in 0..4_000 {
        let decision = shedder.admit(FAST, &entropy).unwrap();
        assert_eq!(decision.targets.len(), 3);
        first[decision.targets[0][1..2].parse::<usize>().unwrap()] += 1;
    }
    // 4.8, 81 and 14.3 per cent; five standard deviations are under 3.2 per cent.
    assert!((3_120..3_360).contains(&first[1]) && (450..690).contains(&first[2]), "{first:?}");
}

#[test]
fn only_clients_whose_move_helps_are_redirected() {
    let entropy = entropy();
    let check = |rate, level, loads: &[(u8, u64, u64)], want: &[&str]| {
        let loads = loads.iter().enumerate();
        let peers = loads.map(|(number, load)| peer(number, load.0, load.1, load.2)).collect();
        let shedder = shedder(level, false, peers, 1_000);
        let _redirectable: Vec<_> = (0..5).map(|_| shedder.count_redirectable()).collect();
        let decision = check_client(&shedder, rate, &entropy);
        assert!(decision.iter().all(|decision| decision.kind == RedirectKind::Suggested));
        let mut targets = decision.map(|decision| decision.targets).unwrap_or_default();
        targets.sort();
        assert_eq!(targets, want, "{rate} {level}");
        assert!(shedder.http_reply_targets(&entropy).is_empty());
    };
    check(20, 0, &[(0, 0, 0), (0, 68, 0), (0, 69, 0), (0, 200, 0)], &["n0:1", "n1:1"]);
    // The only client of a node stays.
    check(100, 0, &[(0, 0, 0)], &[]);
    check(62, 0, &[(0, 0, 0)], &["n0:1"]);
    check(63, 0, &[(0, 0, 0)], &[]);
    // The move of a client with less than a quarter of the mean client rate of 20 does not help.
    check(5, 0, &[(0, 0, 0)], &["n0:1"]);
    check(4, 0, &[(0, 0, 0)], &[]);
    // A peer with a low rate and more connections may be slow; a node of a higher level redirects to it all the same.
    check(20, 0, &[(0, 0, 5), (0, 0, 6)], &["n0:1"]);
    check(20, 1, &[(0, 0, 5), (0, 0, 6)], &["n0:1", "n1:1"]);
    check(20, 1, &[(1, 0, 5), (2, 0, 0), (0, 90, 0)], &["n0:1"]);
    check(u64::MAX, 0, &[(0, 0, 0)], &[]);
}

#[test]
fn redirects_stay_within_the_budget() {
    let entropy = entropy();
    let shedder = shedder(0, false, peers(&[0]), 0);
    let policy = RedirectPolicy::clone(&shedder.policy());
    let load = NodeLoad { bytes_per_second: 1_000, ..policy.load };
    shedder.set_policy(RedirectPolicy { load, ..policy });
    let _redirectable: Vec<_> = (0..10).map(|_| shedder.count_redirectable()).collect();
    let redirected = |rate| (0..10).filter(|_| check_client(&shedder, rate, &entropy).is_some()).count();
    for (budget, rate, want) in [(0, 100, 0), (300, 100, 3), (400, 200, 2), (300, 50, 3)] {
        shedder.set_redirect_budget(budget);
        assert_eq!(redirected(rate), want, "{budget} {rate}");
    }
    shedder.set_redirect_budget(300);
    shedder.set_redirect_budget(0);
    assert_eq!(redirected(100), 0);
}

#[test]
fn a_client_gets_one_suggestion_per_minute_and_is_disconnected_at_any_time() {
    let entropy = entropy();
    let shedder = shedder(1, true, peers(&[0]), 1_000);
    let mut client = ClientRate::new(Duration::from_secs(10));
    let mut check = |second: u64, want: Option<RedirectKind>| {
        let (now, bytes) = (Duration::from_secs(second), (second - 10) * 50);
        let decision = shedder.check_client(&mut client, now, bytes, FAST, &entropy);
        assert_eq!(decision.map(|decision| decision.kind), want, "{second}");
    };
    check(20, Some(RedirectKind::Suggested));
    check(30, None);
    check(79, None);
    check(80, Some(RedirectKind::Suggested));
    let policy = RedirectPolicy::clone(&shedder.policy());
    let load = NodeLoad { level: 3, ..policy.load };
    shedder.set_policy(RedirectPolicy { load, ..policy });
    check(81, Some(RedirectKind::Disconnected));
}

#[test]
fn few_http_replies_name_targets_at_a_low_level_and_all_at_a_high_one() {
    let entropy = entropy();
    let shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let policy = |level| RedirectPolicy {
        load: NodeLoad { level, bytes_per_second: 1_600, connections: 0 },
        peers: vec![IngestPeer { addresses: vec![(ListenerKind::Http, "n0:1".to_owned())], ..peer(0, 0, 0, 0) }],
        ..RedirectPolicy::default()
    };
    for (level, want) in [(0, 4), (1, 4), (2, 1_000), (3, 1_000)] {
        shedder.set_policy(policy(level));
        shedder.set_redirect_budget(400);
        let replies = (0..1_000).filter(|_| !shedder.http_reply_targets(&entropy).is_empty());
        assert_eq!(replies.count(), want, "{level}");
    }
}

/// A node with peers of these rates accepts this rate for a while; returns its last published load.
fn run_node(
    controller: &mut LoadController,
    shedder: &LoadShedder,
    sample: &mut LoadSample,
    rate: u64,
    peer_rates: &[u64],
    seconds: u32,
) -> NodeLoad {
    let mut load = NodeLoad::default();
    for _ in 0..seconds {
        sample.accepted_bytes += rate;
        let peers = peer_rates.iter().zip(1..).map(|(rate, number)| peer(number, 0, *rate, 0)).collect();
        load = controller.step(id(0), *sample, peers, shedder);
    }
    load
}

#[test]
fn a_node_publishes_its_load_and_refuses_within_the_quota() {
    let shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let mut controller = LoadController::new(1_000);
    let mut sample = LoadSample { accepted_bytes: 1 << 40, free_bytes: 1, ..LoadSample::default() };
    let run = |controller: &mut _, sample: &mut _, rate, peers: &[u64], seconds| {
        let load = run_node(controller, &shedder, sample, rate, peers, seconds);
        (load.level, load.bytes_per_second, shedder.policy().is_refusing())
    };
    // What was accepted before the first step does not count.
    assert_eq!(run(&mut controller, &mut sample, 0, &[0, 0], 1), (0, 0, false));
    assert_eq!(run(&mut controller, &mut sample, 900, &[0, 0], 60), (0, 900, false));
    let (level, _, is_refusing) = run(&mut controller, &mut sample, 9_000, &[0, 0], 10);
    assert_eq!((level, is_refusing), (2, true));
    // Of two nodes none refuses.
    let (level, _, is_refusing) = run(&mut controller, &mut sample, 9_000, &[0], 1);
    assert_eq!((level, is_refusing), (2, false));
    assert_eq!(run(&mut controller, &mut sample, 9_000, &[9_000, 9_000], 60), (0, 9_000, false));
}

#[test]
fn a_node_with_a_lead_has_a_budget_of_half_of_its_excess() {
    let entropy = entropy();
    let shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let mut controller = LoadController::new(64_000);
    let mut sample = LoadSample { free_bytes: 1, ..LoadSample::default() };
    let _redirectable: Vec<_> = (0..10).map(|_| shedder.count_redirectable()).collect();
    let redirected = || (0..20).filter(|_| check_client(&shedder, 400, &entropy).is_some()).count();
    let mut run = |peers: &[u64], seconds| run_node(&mut controller, &shedder, &mut sample, 4_000, peers, seconds);
    assert_eq!(run(&[4_000], 100).level, 0);
    assert_eq!(redirected(), 0);
    run(&[4_000, 0], 4);
    assert_eq!(redirected(), 0);
    // The excess over the mean is a third of 4,000. Half of it is one client of 400, and a second one by chance.
    run(&[4_000, 0], 1);
    assert!((1..=2).contains(&redirected()));
}
