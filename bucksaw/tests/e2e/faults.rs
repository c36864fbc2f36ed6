//! Faults in a cluster of real processes under load: a small run of `make faults`.
//!
//! `BUCKSAW_FAULTS_SEED` selects another order of faults.

use std::env;
use std::time::Duration;

use bucksaw_faults::{RunOptions, run};

fn small() -> RunOptions {
    let seed = env::var("BUCKSAW_FAULTS_SEED").map_or(1, |seed| seed.parse().unwrap());
    RunOptions {
        seed,
        small: true,
        rate: 100,
        hold: Duration::from_secs(4),
        rest: Duration::from_secs(2),
        ..RunOptions::new(env!("CARGO_BIN_EXE_bucksaw").into())
    }
}

#[test]
fn faults_lose_and_duplicate_no_record() {
    let report = run(&small()).unwrap();
    eprintln!("{report}");
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    assert_eq!(report.rows.len(), 8, "{report}");
    assert!(report.acknowledged > 1_000, "{report}");
}

/// The control: a line that was never sent counts as acknowledged.
#[test]
fn a_lost_line_is_reported() {
    let options = RunOptions { lose_a_line: true, only: vec!["no fault at all".into()], ..small() };
    let report = run(&options).unwrap();
    let is_reported = |problem: &&String| problem.contains("about bulk1: 1 acknowledged lines are lost");
    // Six nodes are queried at the end, and again after one is destroyed.
    assert_eq!(report.problems.iter().filter(is_reported).count(), 12, "{report}");
    assert_eq!(report.problems.len(), 12, "{report}");
}
