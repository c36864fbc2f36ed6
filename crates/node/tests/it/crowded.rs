//! Stores that have no file descriptor, or no index memory, for another segment.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::test_cluster::TestCluster;

fn stored_segments(town: &TestCluster, number: usize) -> usize {
    town.node(number).store.open_files()
}

fn set_short_of_descriptors(town: &TestCluster, number: usize, is_short: bool) {
    town.node(number).store_context.is_short_of_descriptors.store(is_short, Ordering::Relaxed);
}

#[test]
fn a_crowded_store_gets_no_more_files_and_others_do() {
    let mut town = TestCluster::new(1, 3, 2);
    set_short_of_descriptors(&town, 1, true);
    town.fill();
    assert_eq!(stored_segments(&town, 1), 0);
    assert!(stored_segments(&town, 2) > 0 && stored_segments(&town, 3) > 0);
    town.assert_complete();
    set_short_of_descriptors(&town, 1, false);
    town.fill();
    assert!(stored_segments(&town, 1) > 0);
    town.assert_complete();
}

#[test]
fn while_all_stores_are_crowded_records_stay_where_they_were_taken_in() {
    let mut town = TestCluster::new(2, 2, 1);
    let crowd = |town: &TestCluster, is_short| [1, 2].map(|number| set_short_of_descriptors(town, number, is_short));
    crowd(&town, true);
    town.send(10);
    town.run_for(Duration::from_secs(30));
    assert_eq!((stored_segments(&town, 1), stored_segments(&town, 2)), (0, 0));
    town.assert_complete();
    crowd(&town, false);
    town.run_until_stored();
    town.assert_complete();
}

/// The store again, with this memory for the index of its segments.
fn restart_with(town: &mut TestCluster, number: usize, index_bytes_max: u64) {
    town.index_bytes_max = index_bytes_max;
    town.kill(number);
    town.start(number);
}

#[test]
fn a_store_without_memory_for_its_index_gets_no_more_segments_and_others_do() {
    let mut town = TestCluster::new(1, 3, 2);
    restart_with(&mut town, 1, 1);
    town.run_for(Duration::from_secs(15));
    town.fill();
    // One that it made and one that came meanwhile.
    assert!(stored_segments(&town, 1) <= 2 && town.node(1).store.is_full(), "{}", stored_segments(&town, 1));
    assert!(stored_segments(&town, 2) > 2 && stored_segments(&town, 3) > 2);
    town.assert_complete();
}

#[test]
fn while_no_store_has_memory_for_its_index_records_stay_where_they_were_taken_in() {
    let mut town = TestCluster::new(2, 1, 1);
    restart_with(&mut town, 1, 1);
    town.run_for(Duration::from_secs(15));
    town.send(40);
    town.run_for(Duration::from_secs(30));
    assert_eq!(stored_segments(&town, 1), 1);
    assert!(!town.node(0).queue.uncommitted_segments().is_empty());
    town.assert_complete();
    restart_with(&mut town, 1, u64::MAX);
    town.run_until_stored();
    town.assert_complete();
}
