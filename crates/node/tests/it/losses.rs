//! Coverage of answers while stores are lost.

use std::time::Duration;

use crate::test_cluster::{INGEST, REPAIR_TIME_MAX, WholeCluster};

#[test]
fn answers_are_complete_when_each_lost_store_is_re_replicated_before_the_next() {
    for seed in 0..4 {
        let mut cluster = WholeCluster::new(seed, 5, 2);
        cluster.fill();
        let mut lost = Vec::new();
        for next in [1, 2, 3] {
            cluster.destroy(next);
            cluster.assert_complete();
            cluster.wait_down(next);
            cluster.assert_complete();
            lost.push(next);
            cluster.wait_re_replicated(&lost);
            cluster.assert_complete();
        }
        // The remaining stores keep new records.
        cluster.fill();
        cluster.assert_complete();
    }
}

#[test]
fn two_stores_lost_within_one_pass_make_answers_partial() {
    for seed in 0..4 {
        let mut cluster = WholeCluster::new(seed, 4, 2);
        cluster.fill();
        cluster.destroy(1);
        cluster.wait_down(1);
        cluster.assert_complete();
        cluster.kill(2);
        assert!(cluster.assert_partial() < cluster.sent(), "records of these two stores are missing");
        cluster.run_for(REPAIR_TIME_MAX * 2);
        assert!(cluster.assert_partial() < cluster.sent(), "no pass restores them");
        assert!(cluster.re_replicated(INGEST).is_empty());
        // One store returns with the records of the other, and they are replicated.
        cluster.start(2);
        cluster.wait_re_replicated(&[1]);
        cluster.assert_complete();
        cluster.destroy(3);
        cluster.wait_down(3);
        cluster.assert_complete();
    }
}

/// All stores but one complete a pass. Then that one is lost, with records that only it and the first lost store had.
#[test]
fn a_lost_store_counts_until_every_other_store_has_completed_a_pass() {
    for seed in 0..4 {
        let mut cluster = WholeCluster::new(seed, 4, 2);
        cluster.fill();
        cluster.destroy(1);
        cluster.wait_down(1);
        // It restarts too often to consider a store lost, so it makes no pass.
        for _ in 0..12 {
            cluster.kill(2);
            cluster.run_for(Duration::from_secs(3));
            cluster.start(2);
            cluster.run_for(Duration::from_secs(4));
        }
        let has_passed =
            |cluster: &WholeCluster, number: usize| !cluster.node(number).cluster.facts().re_replicated.is_empty();
        assert!(has_passed(&cluster, 3) && has_passed(&cluster, 4) && !has_passed(&cluster, 2));
        cluster.destroy(2);
        assert!(cluster.assert_partial() < cluster.sent());
        cluster.run_for(REPAIR_TIME_MAX * 2);
        assert!(cluster.assert_partial() < cluster.sent());
    }
}

#[test]
fn a_store_that_returned_is_no_longer_re_replicated() {
    for seed in 0..4 {
        let mut cluster = WholeCluster::new(seed, 4, 2);
        cluster.fill();
        cluster.kill(1);
        cluster.wait_re_replicated(&[1]);
        cluster.start(1);
        assert!(cluster.world.run_until(|| cluster.re_replicated(INGEST).is_empty(), Duration::from_secs(5)));
        cluster.fill();
        cluster.assert_complete();
        // Records that it received since are on one other store, which is lost too.
        cluster.kill(1);
        cluster.wait_down(1);
        cluster.kill(2);
        assert!(cluster.assert_partial() < cluster.sent());
        cluster.wait_down(2);
        assert!(cluster.assert_partial() < cluster.sent());
        cluster.start(1);
        cluster.start(2);
        cluster.run_for(Duration::from_secs(15));
        cluster.assert_complete();
    }
}

#[test]
fn no_half_of_a_partitioned_cluster_counts_as_re_replicated() {
    for seed in 0..3 {
        let mut cluster = WholeCluster::new(seed, 4, 2);
        cluster.fill();
        let hosts = |cluster: &WholeCluster| {
            cluster.world.network().partition(&cluster.hosts(&[0, 1, 2]), &cluster.hosts(&[3, 4]));
        };
        hosts(&cluster);
        cluster.run_for(REPAIR_TIME_MAX * 2);
        assert!(cluster.live_nodes().all(|number| cluster.re_replicated(number).is_empty()));
        cluster.assert_partial();
        cluster.world.network().heal_all();
        cluster.run_for(Duration::from_secs(20));
        cluster.assert_complete();
    }
}

/// The other three stores re-replicate the one that is cut off. When one of these is lost too, all records are found. The store that
/// is cut off re-replicates nothing.
#[test]
fn a_store_that_is_cut_off_is_re_replicated_until_it_returns() {
    for seed in 0..3 {
        let mut cluster = WholeCluster::new(seed, 4, 2);
        cluster.fill();
        let cut_off = |cluster: &WholeCluster| {
            cluster.world.network().partition(&cluster.hosts(&[0, 1, 2, 3]), &cluster.hosts(&[4]));
        };
        cut_off(&cluster);
        let (pass, all) = (REPAIR_TIME_MAX, [0, 1, 2, 3]);
        let is_re_replicated =
            cluster.world.run_until(|| all.iter().all(|number| cluster.re_replicated(*number) == [4]), pass);
        assert!(is_re_replicated && cluster.re_replicated(4).is_empty());
        cluster.fill();
        cluster.kill(3);
        for number in [0, 1, 2] {
            let answer = cluster.query_all(number);
            assert_eq!((answer.stats.is_partial(), answer.records), (false, cluster.sent()), "{:?}", answer.stats);
        }
        assert!(cluster.query_all(4).stats.is_partial());
        cluster.world.network().heal_all();
        cluster.start(3);
        cluster.run_for(Duration::from_secs(20));
        cluster.assert_complete();
        assert!(cluster.live_nodes().all(|number| cluster.re_replicated(number).is_empty()));
    }
}

#[test]
fn a_store_is_not_re_replicated_with_too_few_other_stores() {
    let mut cluster = WholeCluster::new(1, 3, 3);
    cluster.fill();
    cluster.destroy(1);
    cluster.wait_down(1);
    cluster.run_for(REPAIR_TIME_MAX * 2);
    assert!(
        cluster.live_nodes().all(|number| cluster.re_replicated(number).is_empty()),
        "records are under-replicated"
    );
    cluster.assert_complete();
    cluster.destroy(2);
    cluster.wait_down(2);
    cluster.assert_complete();
}

/// A restarted store makes a new pass. What it published before counts until it publishes again.
#[test]
fn a_restarted_store_makes_a_new_pass() {
    let mut cluster = WholeCluster::new(2, 4, 2);
    cluster.fill();
    cluster.destroy(1);
    cluster.wait_re_replicated(&[1]);
    cluster.kill(2);
    cluster.wait_down(2);
    assert_eq!(cluster.re_replicated(INGEST), [1]);
    cluster.assert_complete();
    cluster.start(2);
    assert!(cluster.world.run_until(|| cluster.re_replicated(INGEST).is_empty(), Duration::from_secs(5)));
    cluster.assert_complete();
    cluster.wait_re_replicated(&[1]);
    cluster.assert_complete();
}
