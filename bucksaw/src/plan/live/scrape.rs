//! The counters of a node at a moment, and what happened between two moments.

use std::time::Duration;

use crate::plan::metrics_text::value;

/// Counters and gauges of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NodeScrape {
    cpu_seconds: f64,
    accepted_bytes: f64,
    accepted_records: f64,
    gathered_bytes: f64,
    received_bytes: f64,
    questions: f64,
    question_seconds: f64,
    scanned_bytes: f64,
    commits: f64,
    commit_seconds: f64,
    stored_bytes: f64,
    text_bytes: f64,
    pub(super) disk_free_bytes: f64,
    pub(super) cores: f64,
}

/// What a node did per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NodeRates {
    /// Seconds between the two moments.
    pub(super) seconds: f64,
    /// CPU seconds per second.
    pub(super) cpu_cores: f64,
    /// Bytes of text and records that it accepted.
    pub(super) accepted_bytes: f64,
    pub(super) accepted_records: f64,
    /// Bytes of text that it gathered, and of which it received a copy.
    pub(super) copied_bytes: f64,
    /// Questions that it answered, and the text that it searched for those of all nodes.
    pub(super) questions: f64,
    pub(super) scanned_bytes: f64,
    /// Mean seconds of a question and of a group commit; `None` without one.
    pub(super) question_seconds: Option<f64>,
    pub(super) commit_seconds: Option<f64>,
    /// Bytes by which its files grew.
    pub(super) disk_growth: f64,
}

impl NodeScrape {
    /// Reads the metrics of a node; `None` if they lack one that every node has.
    pub(super) fn parse(metrics: &str) -> Option<Self> {
        let of = |name: &str| value(metrics, name);
        Some(Self {
            cpu_seconds: of("process_cpu_seconds_total")?,
            accepted_bytes: of("bucksaw_ingest_bytes_total")?,
            accepted_records: of("bucksaw_ingest_records_total")?,
            gathered_bytes: of("bucksaw_store_gathered_bytes_total").unwrap_or_default(),
            received_bytes: of("bucksaw_store_received_bytes_total").unwrap_or_default(),
            questions: of("bucksaw_query_seconds_count")?,
            question_seconds: of("bucksaw_query_seconds_sum")?,
            scanned_bytes: of("bucksaw_query_scanned_bytes_total")?,
            commits: of("bucksaw_ingest_sync_seconds_count").unwrap_or_default(),
            commit_seconds: of("bucksaw_ingest_sync_seconds_sum").unwrap_or_default(),
            stored_bytes: of("bucksaw_store_stored_bytes").unwrap_or_default(),
            text_bytes: of("bucksaw_store_text_bytes").unwrap_or_default(),
            disk_free_bytes: of("bucksaw_disk_free_bytes")?,
            cores: of("bucksaw_cores")?,
        })
    }

    /// What happened since an earlier moment of the same process; `None` if the node restarted in between.
    pub(super) fn since(&self, earlier: &Self, time: Duration) -> Option<NodeRates> {
        let seconds = time.as_secs_f64();
        if seconds <= 0.0 || self.cpu_seconds < earlier.cpu_seconds || self.accepted_bytes < earlier.accepted_bytes {
            return None;
        }
        let rate = |of: fn(&Self) -> f64| (of(self) - of(earlier)).max(0.0) / seconds;
        let mean = |sum: fn(&Self) -> f64, count: fn(&Self) -> f64| {
            let count = count(self) - count(earlier);
            (count > 0.0).then(|| (sum(self) - sum(earlier)) / count)
        };
        // Copies arrive as files; their text is larger by the ratio of all files.
        let text_per_stored = if self.stored_bytes > 0.0 { self.text_bytes / self.stored_bytes } else { 1.0 };
        Some(NodeRates {
            seconds,
            cpu_cores: rate(|scrape| scrape.cpu_seconds),
            accepted_bytes: rate(|scrape| scrape.accepted_bytes),
            accepted_records: rate(|scrape| scrape.accepted_records),
            copied_bytes: rate(|scrape| scrape.gathered_bytes) + rate(|scrape| scrape.received_bytes) * text_per_stored,
            questions: rate(|scrape| scrape.questions),
            scanned_bytes: rate(|scrape| scrape.scanned_bytes),
            question_seconds: mean(|scrape| scrape.question_seconds, |scrape| scrape.questions),
            commit_seconds: mean(|scrape| scrape.commit_seconds, |scrape| scrape.commits),
            disk_growth: (earlier.disk_free_bytes - self.disk_free_bytes) / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "process_cpu_seconds_total 10\nbucksaw_ingest_bytes_total{source=\"tcp\"} 1000\n\
        bucksaw_ingest_records_total 10\nbucksaw_query_seconds_count 2\nbucksaw_query_seconds_sum 0.5\n\
        bucksaw_query_scanned_bytes_total 100\nbucksaw_disk_free_bytes 5000\nbucksaw_cores 2\n\
        bucksaw_store_gathered_bytes_total 800\nbucksaw_store_received_bytes_total 10\n\
        bucksaw_store_stored_bytes 100\nbucksaw_store_text_bytes 1000\n";

    #[test]
    fn rates_are_differences_per_second() {
        let before = NodeScrape::parse(METRICS).unwrap();
        let later =
            METRICS.replace("total 10\n", "total 12\n").replace("} 1000", "} 3000").replace("count 2", "count 4");
        let later = later.replace("sum 0.5", "sum 0.9").replace("received_bytes_total 12", "received_bytes_total 30");
        let rates = NodeScrape::parse(&later).unwrap().since(&before, Duration::from_secs(2)).unwrap();
        assert_eq!((rates.cpu_cores, rates.accepted_bytes, rates.questions), (1.0, 1_000.0, 1.0));
        assert_eq!((rates.copied_bytes, rates.commit_seconds), (100.0, None));
        assert!((rates.question_seconds.unwrap() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_restart_and_another_program_have_no_rates() {
        let scrape = NodeScrape::parse(METRICS).unwrap();
        let restarted = NodeScrape { cpu_seconds: 1.0, ..scrape };
        assert_eq!(restarted.since(&scrape, Duration::from_secs(1)), None);
        assert_eq!(scrape.since(&scrape, Duration::ZERO), None);
        assert_eq!(NodeScrape::parse("up 1\n"), None);
    }
}
