//! What a node used beside what its work costs by a calibration, and how much more it can carry.

use bucksaw_capacity::{Calibration, QuestionKind};

use super::scrape::{NodeRates, NodeScrape};

/// A node, measured and predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HeadRoom {
    /// Cores in use.
    pub(super) cpu_measured: f64,
    /// Cores that its work would use by the calibration.
    pub(super) cpu_predicted: f64,
    /// The load relative to the present one at which all of its cores are in use; infinite without load.
    pub(super) cpu_factor: f64,
    /// Seconds until its disk is full at the present growth; infinite if it does not grow.
    pub(super) disk_full_seconds: f64,
}

impl HeadRoom {
    /// The head-room of a node whose senders put about `request_bytes` into a request.
    pub(super) fn of(rates: &NodeRates, now: &NodeScrape, calibration: &Calibration, request_bytes: f64) -> Self {
        let accept = &calibration.accept;
        let accepting = rates.accepted_bytes * (accept.seconds_per_byte + accept.seconds_per_request / request_bytes)
            + rates.accepted_records * accept.seconds_per_record;
        let storing = rates.copied_bytes * calibration.store.seconds_per_byte;
        // The kinds of the questions are not in the metrics, so the text that was searched counts as that of a frequent word.
        let question = calibration.question(QuestionKind::Word);
        let searching = question.map_or(0.0, |cost| {
            rates.questions * cost.fixed_seconds + rates.scanned_bytes * cost.cached_seconds_per_byte
        });
        let ratio = |limit: f64, used: f64| if used > 0.0 { limit / used } else { f64::INFINITY };
        Self {
            cpu_measured: rates.cpu_cores,
            cpu_predicted: accepting + storing + searching,
            cpu_factor: ratio(now.cores, rates.cpu_cores),
            disk_full_seconds: ratio(now.disk_free_bytes, rates.disk_growth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::calibration_file;

    #[test]
    fn predicted_cpu_is_work_times_cost() {
        let calibration = calibration_file::built_in().unwrap();
        let rates = NodeRates { accepted_bytes: 1e7, copied_bytes: 2e7, cpu_cores: 0.5, ..NodeRates::default() };
        let mut now = NodeScrape::default();
        now.cores = 2.0;
        let found = HeadRoom::of(&rates, &now, &calibration, 1e6);
        let accept = calibration.accept.seconds_per_byte + calibration.accept.seconds_per_request / 1e6;
        let want = 1e7 * accept + 2e7 * calibration.store.seconds_per_byte;
        assert!((found.cpu_predicted / want - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found.cpu_factor, found.disk_full_seconds), (4.0, f64::INFINITY));
        let idle = HeadRoom::of(&NodeRates::default(), &now, &calibration, 1e6);
        assert_eq!((idle.cpu_predicted, idle.cpu_factor), (0.0, f64::INFINITY));
    }
}
