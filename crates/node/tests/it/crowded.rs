//! Stores that have no file descriptor, or no index memory, for another segment.

use std::time::Duration;

use crate::town::Town;

fn segments(town: &Town, number: usize) -> usize {
    town.node(number).shelf.segments().len()
}

#[test]
fn a_crowded_store_gets_no_more_files_and_others_do() {
    let mut town = Town::new(1, 3, 2);
    town.node(1).shelf.set_crowded(true);
    town.fill();
    assert_eq!(segments(&town, 1), 0);
    assert!(segments(&town, 2) > 0 && segments(&town, 3) > 0);
    town.is_complete();
    town.node(1).shelf.set_crowded(false);
    town.fill();
    assert!(segments(&town, 1) > 0);
    town.is_complete();
}

#[test]
fn while_all_stores_are_crowded_records_stay_where_they_were_taken_in() {
    let mut town = Town::new(2, 2, 1);
    let crowd = |town: &Town, crowded| [1, 2].map(|number| town.node(number).shelf.set_crowded(crowded));
    crowd(&town, true);
    town.send(10);
    town.pass(Duration::from_secs(30));
    assert_eq!((segments(&town, 1), segments(&town, 2)), (0, 0));
    town.is_complete();
    crowd(&town, false);
    town.rest();
    town.is_complete();
}

/// The store again, with this memory for the index of its segments.
fn restart_with(town: &mut Town, number: usize, index_bytes_max: u64) {
    town.index_bytes_max = index_bytes_max;
    town.kill(number);
    town.start(number);
}

#[test]
fn a_store_without_memory_for_its_index_gets_no_more_segments_and_others_do() {
    let mut town = Town::new(1, 3, 2);
    restart_with(&mut town, 1, 1);
    town.pass(Duration::from_secs(15));
    town.fill();
    // One that it made and one that came meanwhile.
    assert!(segments(&town, 1) <= 2 && town.node(1).shelf.index_memory().is_full(), "{}", segments(&town, 1));
    assert!(segments(&town, 2) > 2 && segments(&town, 3) > 2);
    town.is_complete();
}

#[test]
fn while_no_store_has_memory_for_its_index_records_stay_where_they_were_taken_in() {
    let mut town = Town::new(2, 1, 1);
    restart_with(&mut town, 1, 1);
    town.pass(Duration::from_secs(15));
    town.send(40);
    town.pass(Duration::from_secs(30));
    assert_eq!(segments(&town, 1), 1);
    assert!(!town.node(0).queue.segments().is_empty());
    town.is_complete();
    restart_with(&mut town, 1, u64::MAX);
    town.rest();
    town.is_complete();
}
