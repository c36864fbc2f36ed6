//! The same seed gives the same run.

use bucksaw_sim::{InjectedBug, Scenario, run};

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut fingerprints = Vec::new();
    for seed in 100..105 {
        let twice = [(); 2].map(|()| run(seed, &Scenario::random(seed), None));
        assert_eq!(twice[0], twice[1], "seed {seed}");
        fingerprints.push(twice[0].fingerprint);
    }
    fingerprints.sort_unstable();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 5);
}

#[test]
fn a_run_that_fails_fails_the_same_way_again() {
    let scenario = Scenario::random(1);
    let twice = [(); 2].map(|()| run(1, &scenario, Some(InjectedBug::LastRecordDropped)));
    assert_eq!(twice[0], twice[1]);
}
