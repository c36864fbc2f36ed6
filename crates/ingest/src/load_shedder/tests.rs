//! Decisions about new and connected clients.

use bucksaw_env::Env;
use prometheus_client::registry::Registry;

use super::redirect_policy::TARGETS_MAX;
use super::*;
use crate::append::Durability;
use crate::metrics::Metrics;

const FAST: ListenerKind = ListenerKind::Tcp(Durability::Fast);

fn load_shedder(level: u8, refuses: bool, others: &[(u8, u64)]) -> LoadShedder {
    let load_shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let other = |(number, (level, spare)): (usize, &(u8, u64))| RedirectTarget {
        level: *level,
        spare_capacity: *spare,
        fast: Some(format!("n{number}:1")),
        ..RedirectTarget::default()
    };
    let others = others.iter().enumerate().map(other).collect();
    load_shedder.set_policy(RedirectPolicy {
        level,
        may_refuse: refuses,
        bytes_per_second: 100,
        targets: others,
        ..RedirectPolicy::default()
    });
    load_shedder.set_redirect_budget(100);
    load_shedder
}

#[test]
fn admission_of_new_clients() {
    let entropy = Env::real().entropy;
    let check = |level, refuses, others: &[(u8, u64)], want: &str| {
        let load_shedder = load_shedder(level, refuses, others);
        let decision = match load_shedder.admit(FAST, &*entropy) {
            None => "accepted".to_owned(),
            Some((kind, targets)) => format!("{} {}", kind.name(), targets.join(",")),
        };
        let refuses_others = if load_shedder.refuses_unredirectable(FAST) { ", others refused" } else { "" };
        assert_eq!(format!("{decision}{refuses_others}"), want, "{level} {refuses} {others:?}");
        // No target has an HTTP port.
        assert_eq!(load_shedder.admit(ListenerKind::Http, &*entropy), None);
        assert!(!load_shedder.refuses_unredirectable(ListenerKind::Http));
    };
    check(0, false, &[(0, 1)], "accepted");
    check(1, true, &[(0, 1)], "suggested n0:1");
    check(1, true, &[(1, 9), (2, 9)], "accepted");
    check(2, false, &[(1, 1), (2, 9)], "suggested n0:1");
    check(2, true, &[(2, 9), (1, 1)], "refused n1:1");
    check(2, true, &[], "accepted");
    check(3, false, &[(2, 1)], "suggested n0:1");
    check(3, true, &[(2, 1)], "refused n0:1, others refused");
    check(3, true, &[(3, 1), (3, 1)], "accepted");
}

#[test]
fn redirect_of_connected_clients() {
    let entropy = Env::real().entropy;
    let check = |level, refuses, others: &[(u8, u64)], want: Option<RedirectKind>, failover_targets: usize| {
        let load_shedder = load_shedder(level, refuses, others);
        assert_eq!(load_shedder.try_redirect(FAST, Some(50), &*entropy).map(|(how, _)| how), want);
        assert_eq!(load_shedder.failover_targets(FAST, &*entropy).len(), failover_targets);
    };
    check(1, true, &[(0, 1)], Some(RedirectKind::Suggested), 1);
    check(3, false, &[(0, 1)], Some(RedirectKind::Suggested), 1);
    check(3, true, &[(0, 1), (1, 1)], Some(RedirectKind::Disconnected), 1);
    check(3, true, &[(3, 1), (3, 1)], None, 2);
    check(0, false, &[(2, 1); 5], None, TARGETS_MAX);
    check(0, false, &[], None, 0);
}

#[test]
fn targets_are_weighted_by_spare_capacity() {
    let entropy = Env::real().entropy;
    let load_shedder = load_shedder(1, false, &[(0, 0), (0, 900), (0, 100)]);
    let mut firsts = [0; 3];
    for _ in 0..4_000 {
        let (_, targets) = load_shedder.admit(FAST, &*entropy).unwrap();
        assert_eq!(targets.len(), 3);
        let first = targets[0][1..2].parse::<usize>().unwrap();
        firsts[first] += 1;
    }
    // 90, 10 and 0.1 per cent; five standard deviations are under 2.5 per cent.
    assert!((3_500..3_700).contains(&firsts[1]) && (300..500).contains(&firsts[2]), "{firsts:?}");
}

/// The redirect targets of a client with this rate, on a node with 100 bytes per second and five connections.
fn redirect_of(bytes_per_second: u64, budget: u64, level: u8, others: &[(u8, u64, u64)]) -> Option<Vec<String>> {
    let load_shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let other = |(number, (level, bytes_per_second, connections)): (usize, &(u8, u64, u64))| RedirectTarget {
        level: *level,
        bytes_per_second: *bytes_per_second,
        connections: *connections,
        fast: Some(format!("n{number}:1")),
        ..RedirectTarget::default()
    };
    let others = others.iter().enumerate().map(other).collect();
    load_shedder.set_policy(RedirectPolicy {
        level,
        may_refuse: false,
        bytes_per_second: 100,
        connections: 5,
        targets: others,
    });
    let _redirectable: Vec<_> = (0..5).map(|_| load_shedder.count_redirectable()).collect();
    load_shedder.set_redirect_budget(budget);
    let redirect = load_shedder.try_redirect(FAST, Some(bytes_per_second), &*Env::real().entropy);
    assert_eq!(load_shedder.try_redirect(ListenerKind::Http, None, &*Env::real().entropy), None);
    redirect.map(|(kind, targets)| {
        assert_eq!(kind, RedirectKind::Suggested);
        targets
    })
}

#[test]
fn only_clients_whose_move_helps_are_redirected() {
    let check = |rate, level, others: &[(u8, u64, u64)], want: &[&str]| {
        let mut targets = redirect_of(rate, 1_000, level, others).unwrap_or_default();
        targets.sort();
        assert_eq!(targets, want, "{rate} {level} {others:?}");
    };
    check(20, 0, &[(0, 0, 0), (0, 68, 0), (0, 69, 0), (0, 200, 0)], &["n0:1", "n1:1"]);
    // The only client of a node, and one of two.
    check(100, 0, &[(0, 0, 0)], &[]);
    check(62, 0, &[(0, 0, 0)], &["n0:1"]);
    check(63, 0, &[(0, 0, 0)], &[]);
    // The move of a small client does not help.
    check(5, 0, &[(0, 0, 0)], &["n0:1"]);
    check(4, 0, &[(0, 0, 0)], &[]);
    // A node with a low rate and more connections may be slow; it is a target for busy nodes only.
    check(20, 0, &[(0, 0, 5), (0, 0, 6)], &["n0:1"]);
    check(20, 1, &[(0, 0, 5), (0, 0, 6)], &["n0:1", "n1:1"]);
    check(20, 1, &[(1, 0, 5), (2, 0, 0), (0, 90, 0)], &["n0:1"]);
    check(u64::MAX, 0, &[(0, 0, 0)], &[]);
}

#[test]
fn redirects_stay_within_the_budget() {
    let entropy = Env::real().entropy;
    let load_shedder = load_shedder(0, false, &[(0, 1)]);
    load_shedder.set_policy(RedirectPolicy {
        bytes_per_second: 1_000,
        targets: load_shedder.policy().targets.clone(),
        ..RedirectPolicy::default()
    });
    let _redirectable: Vec<_> = (0..10).map(|_| load_shedder.count_redirectable()).collect();
    let redirects = |rate| (0..10).filter(|_| load_shedder.try_redirect(FAST, Some(rate), &*entropy).is_some()).count();
    for (budget, rate, want) in [(0, 100, 0), (300, 100, 3), (400, 200, 2), (300, 50, 3)] {
        load_shedder.set_redirect_budget(budget);
        assert_eq!(redirects(rate), want, "{budget} {rate}");
    }
    load_shedder.set_redirect_budget(300);
    load_shedder.set_redirect_budget(0);
    assert_eq!(redirects(100), 0);
}

#[test]
fn few_http_answers_suggest_a_redirect() {
    let entropy = Env::real().entropy;
    let load_shedder = LoadShedder::new(Metrics::new(&mut Registry::default()));
    let others = vec![RedirectTarget { http: Some("n0:1".into()), ..RedirectTarget::default() }];
    load_shedder.set_policy(RedirectPolicy { bytes_per_second: 1_600, targets: others, ..RedirectPolicy::default() });
    load_shedder.set_redirect_budget(400);
    let redirects =
        (0..1_000).filter(|_| load_shedder.try_redirect(ListenerKind::Http, None, &*entropy).is_some()).count();
    assert_eq!(redirects, 4);
}
