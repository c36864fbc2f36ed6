//! Small clusters against the formulas. `make queueing` runs the larger ones for longer.

use std::time::Duration;

use super::{QueueingLoad, QueueingReport};

/// Simulated time of a run.
const WINDOW: Duration = Duration::from_secs(300);

#[test]
fn small_clusters_agree_with_the_formulas() {
    for (nodes, utilisation) in [(3, 0.3), (10, 0.6)] {
        let report = QueueingReport::predict(QueueingLoad { nodes, utilisation }).measure(1, WINDOW, 0);
        // Shown by `cargo test -- --nocapture`.
        println!("{report}");
        // Uncommitted segments, times of records, rounds in vain and bytes; the few waiting segments of a short run vary by more.
        for (figure, tolerance) in [(1, 0.1), (2, 0.1), (3, 0.15), (4, 0.25), (5, 0.15), (6, 0.02)] {
            let error = report.lease_error(figure).unwrap();
            assert!(error.abs() < tolerance, "figure {figure}: {error}\n{report}");
        }
    }
}
