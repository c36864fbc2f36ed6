//! Seeds must pass: some fixed ones here, and those that failed once; many more by `make sim`.

use bucksaw_sim::{REGRESSION_SEEDS, Scenario, run};

/// So many are run each time. More cost time that `make test` has not; `make sim` has it.
const SEEDS: u64 = 25;

#[test]
fn nothing_is_lost_doubled_or_stuck() {
    let seeds = (0..SEEDS).chain(REGRESSION_SEEDS.iter().copied());
    let (mut sent, mut acknowledged, mut answers, mut columnar) = (0, 0, 0, 0);
    for seed in seeds {
        let outcome = run(seed, &Scenario::random(seed), None);
        let again = format!("cargo run --release -p bucksaw-sim -- --from {seed} --seeds 1 --trace");
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}\nagain: {again}", outcome.violations);
        sent += outcome.sent;
        acknowledged += outcome.acknowledged;
        answers += outcome.answers;
        columnar += usize::from(outcome.columnar_blocks > 0);
    }
    // Else nothing was looked at.
    assert!(acknowledged * 2 > sent && sent > 1_000, "{acknowledged} of {sent}");
    assert!(answers > 25, "{answers}");
    assert!(columnar > 10, "{columnar} runs have columnar blocks");
}
