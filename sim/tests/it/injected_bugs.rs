//! The checks find each injected bug.
#![expect(clippy::print_stdout, reason = "lists the seeds that find the bugs")]

use std::collections::BTreeSet;

use bucksaw_sim::{InjectedBug, Scenario, run};

/// The first seed that finds a bug.
fn first_failing_seed(bug: InjectedBug) -> Option<u64> {
    let seed = (0..bug.seeds_max()).find(|seed| !run(*seed, &Scenario::random(*seed), Some(bug)).violations.is_empty());
    // Shown by `cargo test -- --nocapture`.
    println!("{bug}: {seed:?} of {}", bug.seeds_max());
    seed
}

fn check_part(part: usize) {
    let missed: Vec<&str> = (0..)
        .zip(InjectedBug::ALL)
        .filter(|(at, bug)| at % PARTS == part && first_failing_seed(**bug).is_none())
        .map(|(_, bug)| bug.name())
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The parts run in parallel.
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
    let expected: BTreeSet<String> = InjectedBug::ALL
        .iter()
        .map(|bug| format!("| `{}` | {} | {} |", bug.name(), bug.description(), bug.seeds_max()))
        .collect();
    assert_eq!(listed, expected);
}
