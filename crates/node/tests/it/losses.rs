//! Stores are lost one after the other: what answers say of themselves, and that it is true.

use std::time::Duration;

use crate::town::{INGEST, REPAIRED, Town};

#[test]
fn a_store_that_was_made_good_may_be_followed_by_another() {
    for seed in 0..4 {
        let mut town = Town::new(seed, 5, 2);
        town.fill();
        let mut gone = Vec::new();
        for next in [1, 2, 3] {
            town.destroy(next);
            town.is_complete();
            town.goes_down(next);
            town.is_complete();
            gone.push(next);
            town.until_made_good(&gone);
            town.is_complete();
        }
        // What is new is kept by those that are left.
        town.fill();
        town.is_complete();
    }
}

#[test]
fn two_that_are_lost_before_the_walk_has_ended_make_answers_partial() {
    for seed in 0..4 {
        let mut town = Town::new(seed, 4, 2);
        town.fill();
        town.destroy(1);
        town.goes_down(1);
        town.is_complete();
        town.kill(2);
        assert!(town.is_partial() < town.sent(), "what only these two had is missing");
        town.pass(REPAIRED * 2);
        assert!(town.is_partial() < town.sent(), "and no walk finds it");
        assert!(town.made_good(INGEST).is_empty());
        // The one comes back with what only the other had, and it is copied.
        town.start(2);
        town.until_made_good(&[1]);
        town.is_complete();
        town.destroy(3);
        town.goes_down(3);
        town.is_complete();
    }
}

/// The others have walked, and the one that had not yet was lost with what only it and the first had.
#[test]
fn a_walk_that_one_store_has_not_ended_counts_for_nobody() {
    for seed in 0..4 {
        let mut town = Town::new(seed, 4, 2);
        town.fill();
        town.destroy(1);
        town.goes_down(1);
        // It takes nobody for lost, for it is started anew all the while, and never walks.
        for _ in 0..12 {
            town.kill(2);
            town.pass(Duration::from_secs(3));
            town.start(2);
            town.pass(Duration::from_secs(4));
        }
        let walked = |town: &Town, number: usize| !town.node(number).cluster.facts().made_good.is_empty();
        assert!(walked(&town, 3) && walked(&town, 4) && !walked(&town, 2));
        town.destroy(2);
        assert!(town.is_partial() < town.sent());
        town.pass(REPAIRED * 2);
        assert!(town.is_partial() < town.sent());
    }
}

#[test]
fn a_store_that_was_back_is_not_made_good_any_more() {
    for seed in 0..4 {
        let mut town = Town::new(seed, 4, 2);
        town.fill();
        town.kill(1);
        town.until_made_good(&[1]);
        town.start(1);
        assert!(town.world.run_until(|| town.made_good(INGEST).is_empty(), Duration::from_secs(5)));
        town.fill();
        town.is_complete();
        // What it took since lies on one other; that one is lost, too.
        town.kill(1);
        town.goes_down(1);
        town.kill(2);
        assert!(town.is_partial() < town.sent());
        town.goes_down(2);
        assert!(town.is_partial() < town.sent());
        town.start(1);
        town.start(2);
        town.pass(Duration::from_secs(15));
        town.is_complete();
    }
}

#[test]
fn neither_half_of_a_cluster_makes_the_other_good() {
    for seed in 0..3 {
        let mut town = Town::new(seed, 4, 2);
        town.fill();
        let hosts = |town: &Town| {
            town.world.network().part(&town.hosts(&[0, 1, 2]), &town.hosts(&[3, 4]));
        };
        hosts(&town);
        town.pass(REPAIRED * 2);
        assert!(town.living().all(|of| town.made_good(of).is_empty()));
        town.is_partial();
        town.world.network().heal_all();
        town.pass(Duration::from_secs(20));
        town.is_complete();
    }
}

/// One of four is cut off, and is made good by the three; when one of these is lost as well, what was stored before and since
/// is there. The one that was cut off has nobody to keep anything with.
#[test]
fn a_store_that_is_cut_off_is_made_good_and_comes_back() {
    for seed in 0..3 {
        let mut town = Town::new(seed, 4, 2);
        town.fill();
        let parted = |town: &Town| town.world.network().part(&town.hosts(&[0, 1, 2, 3]), &town.hosts(&[4]));
        parted(&town);
        let (pass, all) = (REPAIRED, [0, 1, 2, 3]);
        let is_so = town.world.run_until(|| all.iter().all(|of| town.made_good(*of) == [4]), pass);
        assert!(is_so && town.made_good(4).is_empty());
        town.fill();
        town.kill(3);
        for of in [0, 1, 2] {
            let answer = town.ask(of);
            assert_eq!((answer.stats.is_partial(), answer.records), (false, town.sent()), "{:?}", answer.stats);
        }
        assert!(town.ask(4).stats.is_partial());
        town.world.network().heal_all();
        town.start(3);
        town.pass(Duration::from_secs(20));
        town.is_complete();
        assert!(town.living().all(|of| town.made_good(of).is_empty()));
    }
}

#[test]
fn a_store_that_nobody_can_replace_is_not_made_good() {
    let mut town = Town::new(1, 3, 3);
    town.fill();
    town.destroy(1);
    town.goes_down(1);
    town.pass(REPAIRED * 2);
    assert!(town.living().all(|of| town.made_good(of).is_empty()), "copies are missing");
    town.is_complete();
    town.destroy(2);
    town.goes_down(2);
    town.is_complete();
}

/// A store that begins again does not know what it has walked over; what it told before counts until it tells anew.
#[test]
fn a_store_that_starts_anew_walks_anew() {
    let mut town = Town::new(2, 4, 2);
    town.fill();
    town.destroy(1);
    town.until_made_good(&[1]);
    town.kill(2);
    town.goes_down(2);
    assert_eq!(town.made_good(INGEST), [1]);
    town.is_complete();
    town.start(2);
    assert!(town.world.run_until(|| town.made_good(INGEST).is_empty(), Duration::from_secs(5)));
    town.is_complete();
    town.until_made_good(&[1]);
    town.is_complete();
}
