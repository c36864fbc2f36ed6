//! Small clusters against the formulas. `make queueing` runs the larger ones for longer.

use std::time::Duration;

use super::{QueueingLoad, QueueingReport};

/// Simulated time of a run.
const WINDOW: Duration = Duration::from_secs(600);

/// Maximum errors of uncommitted segments, the mean time until a record is stored, its 99th percentile, rounds in vain, empty
/// fetches, and bytes, by their index. Waiting segments are too few in a short run. The segments of a single ingest node are far
/// more even than the formula for rounds in vain assumes.
const TOLERANCES: [(usize, f64); 6] = [(1, 0.15), (2, 0.1), (3, 0.2), (4, 0.45), (5, 0.45), (6, 0.02)];

#[test]
fn small_clusters_agree_with_the_formulas() {
    for (nodes, utilisation) in [(3, 0.3), (3, 0.6), (10, 0.3), (10, 0.85)] {
        let report = QueueingReport::predict(QueueingLoad { nodes, utilisation }).measure(1, WINDOW, 0);
        // Shown by `cargo test -- --nocapture`.
        println!("{report}");
        for (figure, tolerance) in TOLERANCES {
            let error = report.lease_error(figure).unwrap();
            assert!(error.abs() < tolerance, "figure {figure}: {error}\n{report}");
        }
    }
}
