//! The first seeds and all regression seeds pass. `make sim` runs more.

use bucksaw_sim::{REGRESSION_SEEDS, Scenario, run};

/// The number of seeds in `make test`.
const SEEDS: u64 = 25;

#[test]
fn no_record_is_lost_duplicated_or_stuck() {
    let seeds = (0..SEEDS).chain(REGRESSION_SEEDS.iter().copied());
    let (mut sent, mut acknowledged, mut answers, mut columnar) = (0, 0, 0, 0);
    for seed in seeds {
        let outcome = run(seed, &Scenario::random(seed), None);
        let reproduce = format!("cargo run --release -p bucksaw-sim -- --from {seed} --seeds 1 --trace");
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}\nreproduce: {reproduce}", outcome.violations);
        sent += outcome.sent;
        acknowledged += outcome.acknowledged;
        answers += outcome.answers;
        columnar += usize::from(outcome.columnar_blocks > 0);
    }
    // The runs must contain something to check.
    assert!(acknowledged * 2 > sent && sent > 1_000, "{acknowledged} of {sent}");
    assert!(answers > 25, "{answers}");
    assert!(columnar > 10, "{columnar} runs have columnar blocks");
}
