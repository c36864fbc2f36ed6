//! The test of the tester: each mutation is found.

use std::collections::BTreeSet;

use bucksaw_sim::{Mutation, Scenario, run};

/// The first seed that finds it.
fn first_failing_seed(mutation: Mutation) -> Option<u64> {
    (0..mutation.within()).find(|seed| !run(*seed, &Scenario::random(*seed), Some(mutation)).violations.is_empty())
}

fn check_part(part: usize) {
    let missed: Vec<&str> = (0..)
        .zip(Mutation::ALL)
        .filter(|(at, mutation)| at % PARTS == part && first_failing_seed(**mutation).is_none())
        .map(|(_, mutation)| mutation.name())
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// In parts, so that all cores have something to do.
const PARTS: usize = 4;

#[test]
fn injected_bugs_are_found_first_part() {
    check_part(0);
}

#[test]
fn injected_bugs_are_found_second_part() {
    check_part(1);
}

#[test]
fn injected_bugs_are_found_third_part() {
    check_part(2);
}

#[test]
fn injected_bugs_are_found_fourth_part() {
    check_part(3);
}

#[test]
fn injected_bugs_are_listed_in_the_document() {
    let document = include_str!("../../../docs/simulation.md");
    let listed: BTreeSet<String> = document.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
    let expected: BTreeSet<String> = Mutation::ALL
        .iter()
        .map(|mutation| format!("| `{}` | {} | {} |", mutation.name(), mutation.why(), mutation.within()))
        .collect();
    assert_eq!(listed, expected);
}
