//! Stores are lost one after the other: what answers say of themselves, and that it is true.

use std::time::Duration;

use crate::test_cluster::{INGEST, REPAIR_TIME_MAX, TestCluster};

#[test]
fn a_store_that_was_made_good_may_be_followed_by_another() {
    for seed in 0..4 {
        let mut town = TestCluster::new(seed, 5, 2);
        town.fill();
        let mut gone = Vec::new();
        for next in [1, 2, 3] {
            town.destroy(next);
            town.assert_complete();
            town.wait_down(next);
            town.assert_complete();
            gone.push(next);
            town.wait_re_replicated(&gone);
            town.assert_complete();
        }
        // What is new is kept by those that are left.
        town.fill();
        town.assert_complete();
    }
}

#[test]
fn two_that_are_lost_before_the_walk_has_ended_make_answers_partial() {
    for seed in 0..4 {
        let mut town = TestCluster::new(seed, 4, 2);
        town.fill();
        town.destroy(1);
        town.wait_down(1);
        town.assert_complete();
        town.kill(2);
        assert!(town.assert_partial() < town.sent(), "what only these two had is missing");
        town.run_for(REPAIR_TIME_MAX * 2);
        assert!(town.assert_partial() < town.sent(), "and no walk finds it");
        assert!(town.re_replicated(INGEST).is_empty());
        // The one comes back with what only the other had, and it is copied.
        town.start(2);
        town.wait_re_replicated(&[1]);
        town.assert_complete();
        town.destroy(3);
        town.wait_down(3);
        town.assert_complete();
    }
}

/// The others have walked, and the one that had not yet was lost with what only it and the first had.
#[test]
fn a_walk_that_one_store_has_not_ended_counts_for_nobody() {
    for seed in 0..4 {
        let mut town = TestCluster::new(seed, 4, 2);
        town.fill();
        town.destroy(1);
        town.wait_down(1);
        // It takes nobody for lost, for it is started anew all the while, and never walks.
        for _ in 0..12 {
            town.kill(2);
            town.run_for(Duration::from_secs(3));
            town.start(2);
            town.run_for(Duration::from_secs(4));
        }
        let walked = |town: &TestCluster, number: usize| !town.node(number).cluster.facts().re_replicated.is_empty();
        assert!(walked(&town, 3) && walked(&town, 4) && !walked(&town, 2));
        town.destroy(2);
        assert!(town.assert_partial() < town.sent());
        town.run_for(REPAIR_TIME_MAX * 2);
        assert!(town.assert_partial() < town.sent());
    }
}

#[test]
fn a_store_that_was_back_is_not_made_good_any_more() {
    for seed in 0..4 {
        let mut town = TestCluster::new(seed, 4, 2);
        town.fill();
        town.kill(1);
        town.wait_re_replicated(&[1]);
        town.start(1);
        assert!(town.world.run_until(|| town.re_replicated(INGEST).is_empty(), Duration::from_secs(5)));
        town.fill();
        town.assert_complete();
        // What it took since lies on one other; that one is lost, too.
        town.kill(1);
        town.wait_down(1);
        town.kill(2);
        assert!(town.assert_partial() < town.sent());
        town.wait_down(2);
        assert!(town.assert_partial() < town.sent());
        town.start(1);
        town.start(2);
        town.run_for(Duration::from_secs(15));
        town.assert_complete();
    }
}

#[test]
fn neither_half_of_a_cluster_makes_the_other_good() {
    for seed in 0..3 {
        let mut town = TestCluster::new(seed, 4, 2);
        town.fill();
        let hosts = |town: &TestCluster| {
            town.world.network().partition(&town.hosts(&[0, 1, 2]), &town.hosts(&[3, 4]));
        };
        hosts(&town);
        town.run_for(REPAIR_TIME_MAX * 2);
        assert!(town.live_nodes().all(|of| town.re_replicated(of).is_empty()));
        town.assert_partial();
        town.world.network().heal_all();
        town.run_for(Duration::from_secs(20));
        town.assert_complete();
    }
}

/// One of four is cut off, and is made good by the three; when one of these is lost as well, what was stored before and since
/// is there. The one that was cut off has nobody to keep anything with.
#[test]
fn a_store_that_is_cut_off_is_made_good_and_comes_back() {
    for seed in 0..3 {
        let mut town = TestCluster::new(seed, 4, 2);
        town.fill();
        let parted = |town: &TestCluster| town.world.network().partition(&town.hosts(&[0, 1, 2, 3]), &town.hosts(&[4]));
        parted(&town);
        let (pass, all) = (REPAIR_TIME_MAX, [0, 1, 2, 3]);
        let is_so = town.world.run_until(|| all.iter().all(|of| town.re_replicated(*of) == [4]), pass);
        assert!(is_so && town.re_replicated(4).is_empty());
        town.fill();
        town.kill(3);
        for of in [0, 1, 2] {
            let answer = town.query_all(of);
            assert_eq!((answer.stats.is_partial(), answer.records), (false, town.sent()), "{:?}", answer.stats);
        }
        assert!(town.query_all(4).stats.is_partial());
        town.world.network().heal_all();
        town.start(3);
        town.run_for(Duration::from_secs(20));
        town.assert_complete();
        assert!(town.live_nodes().all(|of| town.re_replicated(of).is_empty()));
    }
}

#[test]
fn a_store_that_nobody_can_replace_is_not_made_good() {
    let mut town = TestCluster::new(1, 3, 3);
    town.fill();
    town.destroy(1);
    town.wait_down(1);
    town.run_for(REPAIR_TIME_MAX * 2);
    assert!(town.live_nodes().all(|of| town.re_replicated(of).is_empty()), "copies are missing");
    town.assert_complete();
    town.destroy(2);
    town.wait_down(2);
    town.assert_complete();
}

/// A store that begins again does not know what it has walked over; what it told before counts until it tells anew.
#[test]
fn a_store_that_starts_anew_walks_anew() {
    let mut town = TestCluster::new(2, 4, 2);
    town.fill();
    town.destroy(1);
    town.wait_re_replicated(&[1]);
    town.kill(2);
    town.wait_down(2);
    assert_eq!(town.re_replicated(INGEST), [1]);
    town.assert_complete();
    town.start(2);
    assert!(town.world.run_until(|| town.re_replicated(INGEST).is_empty(), Duration::from_secs(5)));
    town.assert_complete();
    town.wait_re_replicated(&[1]);
    town.assert_complete();
}
