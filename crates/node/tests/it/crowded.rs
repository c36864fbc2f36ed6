//! Stores that have no file descriptor, or no index memory, for another segment.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::test_cluster::WholeCluster;

fn stored_segments(cluster: &WholeCluster, number: usize) -> usize {
    cluster.node(number).store.open_files()
}

fn set_short_of_descriptors(cluster: &WholeCluster, number: usize, is_short: bool) {
    cluster.node(number).store_context.is_short_of_descriptors.store(is_short, Ordering::Relaxed);
}

#[test]
fn a_crowded_store_gets_no_more_files_and_others_do() {
    let mut cluster = WholeCluster::new(1, 3, 2);
    set_short_of_descriptors(&cluster, 1, true);
    cluster.fill();
    assert_eq!(stored_segments(&cluster, 1), 0);
    assert!(stored_segments(&cluster, 2) > 0 && stored_segments(&cluster, 3) > 0);
    cluster.assert_complete();
    set_short_of_descriptors(&cluster, 1, false);
    cluster.fill();
    assert!(stored_segments(&cluster, 1) > 0);
    cluster.assert_complete();
}

#[test]
fn while_all_stores_are_crowded_records_stay_where_they_were_taken_in() {
    let mut cluster = WholeCluster::new(2, 2, 1);
    let crowd =
        |cluster: &WholeCluster, is_short| [1, 2].map(|number| set_short_of_descriptors(cluster, number, is_short));
    crowd(&cluster, true);
    cluster.send(10);
    cluster.run_for(Duration::from_secs(30));
    assert_eq!((stored_segments(&cluster, 1), stored_segments(&cluster, 2)), (0, 0));
    cluster.assert_complete();
    crowd(&cluster, false);
    cluster.run_until_stored();
    cluster.assert_complete();
}

/// The store again, with this memory for the index of its segments.
fn restart_with(cluster: &mut WholeCluster, number: usize, index_bytes_max: u64) {
    cluster.index_bytes_max = index_bytes_max;
    cluster.kill(number);
    cluster.start(number);
}

#[test]
fn a_store_without_memory_for_its_index_gets_no_more_segments_and_others_do() {
    let mut cluster = WholeCluster::new(1, 3, 2);
    restart_with(&mut cluster, 1, 1);
    cluster.run_for(Duration::from_secs(15));
    cluster.fill();
    // One that it made and one that came meanwhile.
    assert!(stored_segments(&cluster, 1) <= 2 && cluster.node(1).store.is_full(), "{}", stored_segments(&cluster, 1));
    assert!(stored_segments(&cluster, 2) > 2 && stored_segments(&cluster, 3) > 2);
    cluster.assert_complete();
}

#[test]
fn while_no_store_has_memory_for_its_index_records_stay_where_they_were_taken_in() {
    let mut cluster = WholeCluster::new(2, 1, 1);
    restart_with(&mut cluster, 1, 1);
    cluster.run_for(Duration::from_secs(15));
    cluster.send(40);
    cluster.run_for(Duration::from_secs(30));
    assert_eq!(stored_segments(&cluster, 1), 1);
    assert!(!cluster.node(0).queue.uncommitted_segments().is_empty());
    cluster.assert_complete();
    restart_with(&mut cluster, 1, u64::MAX);
    cluster.run_until_stored();
    cluster.assert_complete();
}
