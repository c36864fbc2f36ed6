//! The counters of a running node at a moment, and what it did per second between two moments.

use std::time::Duration;

/// Counters and gauges of a running node. Counters begin at the start of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkCounters {
    /// CPU seconds of its process.
    pub cpu_seconds: f64,
    /// Bytes of text that it accepted.
    pub accepted_bytes: f64,
    /// Records that it accepted.
    pub accepted_records: f64,
    /// Bytes of text that it gathered.
    pub gathered_bytes: f64,
    /// Bytes of segment files that it received as copies.
    pub received_bytes: f64,
    /// Bytes of text that it merged.
    pub merged_bytes: f64,
    /// Questions that it answered.
    pub questions: f64,
    /// Seconds that these questions took, all together.
    pub question_seconds: f64,
    /// Bytes of text that it searched for the questions of all nodes.
    pub scanned_bytes: f64,
    /// Group commits.
    pub commits: f64,
    /// Seconds that these group commits took, all together.
    pub commit_seconds: f64,
    /// Bytes of its segment files now.
    pub stored_bytes: f64,
    /// Bytes of text in these files.
    pub text_bytes: f64,
    /// Free bytes of its disk now.
    pub disk_free_bytes: f64,
    /// Free bytes of its disk below which it accepts nothing.
    pub disk_reserve_bytes: f64,
    /// Cores that its process may use.
    pub cores: f64,
}

/// What a running node did per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeRates {
    /// Seconds between the two moments.
    pub seconds: f64,
    /// CPU seconds per second: cores in use.
    pub cpu_cores: f64,
    /// Bytes of text that it accepted.
    pub accepted_bytes: f64,
    /// Records that it accepted.
    pub accepted_records: f64,
    /// Bytes of text that it gathered, and of which it received a copy.
    pub copied_bytes: f64,
    /// Bytes of text that it merged.
    pub merged_bytes: f64,
    /// Questions that it answered.
    pub questions: f64,
    /// Bytes of text that it searched for the questions of all nodes.
    pub scanned_bytes: f64,
    /// Group commits.
    pub commits: f64,
    /// Mean seconds of a question; `None` without one.
    pub question_seconds: Option<f64>,
    /// Mean seconds of a group commit; `None` without one.
    pub commit_seconds: Option<f64>,
    /// Bytes by which the free bytes of its disk shrank; negative if they grew.
    pub disk_growth: f64,
}

impl WorkCounters {
    /// What happened since an earlier moment of the same process, `time` ago; `None` if no time passed, or if the process
    /// restarted in between.
    #[must_use]
    pub fn since(&self, earlier: &Self, time: Duration) -> Option<NodeRates> {
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
            cpu_cores: rate(|counters| counters.cpu_seconds),
            accepted_bytes: rate(|counters| counters.accepted_bytes),
            accepted_records: rate(|counters| counters.accepted_records),
            copied_bytes: rate(|counters| counters.gathered_bytes)
                + rate(|counters| counters.received_bytes) * text_per_stored,
            merged_bytes: rate(|counters| counters.merged_bytes),
            questions: rate(|counters| counters.questions),
            scanned_bytes: rate(|counters| counters.scanned_bytes),
            commits: rate(|counters| counters.commits),
            question_seconds: mean(|counters| counters.question_seconds, |counters| counters.questions),
            commit_seconds: mean(|counters| counters.commit_seconds, |counters| counters.commits),
            disk_growth: (earlier.disk_free_bytes - self.disk_free_bytes) / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: WorkCounters = WorkCounters {
        cpu_seconds: 10.0,
        accepted_bytes: 1_000.0,
        accepted_records: 10.0,
        gathered_bytes: 800.0,
        received_bytes: 10.0,
        merged_bytes: 5.0,
        questions: 2.0,
        question_seconds: 0.5,
        scanned_bytes: 100.0,
        commits: 3.0,
        commit_seconds: 1.0,
        stored_bytes: 100.0,
        text_bytes: 1_000.0,
        disk_free_bytes: 5_000.0,
        disk_reserve_bytes: 0.0,
        cores: 2.0,
    };

    #[test]
    fn rates_are_differences_per_second() {
        let later = WorkCounters {
            cpu_seconds: 12.0,
            accepted_bytes: 3_000.0,
            received_bytes: 30.0,
            questions: 4.0,
            question_seconds: 0.9,
            disk_free_bytes: 4_000.0,
            ..BEFORE
        };
        let rates = later.since(&BEFORE, Duration::from_secs(2)).unwrap();
        assert_eq!((rates.cpu_cores, rates.accepted_bytes, rates.questions), (1.0, 1_000.0, 1.0));
        assert_eq!((rates.copied_bytes, rates.commit_seconds, rates.disk_growth), (100.0, None, 500.0));
        assert!((rates.question_seconds.unwrap() - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_restart_and_no_time_have_no_rates() {
        let restarted = WorkCounters { cpu_seconds: 1.0, ..BEFORE };
        assert_eq!(restarted.since(&BEFORE, Duration::from_secs(1)), None);
        assert_eq!(BEFORE.since(&BEFORE, Duration::ZERO), None);
    }
}
