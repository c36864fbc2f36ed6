//! A load on one node.

use std::time::Duration;

/// Bytes of text per request.
pub(super) const REQUEST_BYTES: u64 = 64 << 10;

/// The range of each question, and the questions per hour of most loads with questions.
pub(super) const RANGE: Duration = Duration::from_secs(20);
pub(super) const QUESTIONS_PER_HOUR: u32 = 18_000;

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedLoad {
    /// Mean bytes of text per second.
    pub(super) bytes_per_second: u64,
    /// Mean bytes of a line.
    pub(super) line_bytes: u64,
    /// Mean bytes of text per request.
    pub(super) request_bytes: u64,
    /// Counts of a frequent word per hour; 0 for none.
    pub(super) questions_per_hour: u32,
}

impl PlannedLoad {
    /// Requests of [`REQUEST_BYTES`] with lines of this length, without questions.
    pub(super) const fn without_questions(bytes_per_second: u64, line_bytes: u64) -> Self {
        Self { bytes_per_second, line_bytes, request_bytes: REQUEST_BYTES, questions_per_hour: 0 }
    }

    /// The flags of `bucksaw plan` for it.
    pub(super) fn plan_flags(self) -> Vec<String> {
        // Without questions one is planned that costs next to nothing.
        let per_hour =
            if self.questions_per_hour == 0 { "0.001".to_owned() } else { self.questions_per_hour.to_string() };
        [
            ("--rate", self.bytes_per_second.to_string()),
            ("--line-bytes", self.line_bytes.to_string()),
            ("--request-bytes", self.request_bytes.to_string()),
            ("--question", format!("word:{per_hour}:{}s", RANGE.as_secs())),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_the_load() {
        let load = PlannedLoad { questions_per_hour: 7, ..PlannedLoad::without_questions(2_000_000, 150) };
        let want = "--rate 2000000 --line-bytes 150 --request-bytes 65536 --question word:7:20s";
        assert_eq!(load.plan_flags().join(" "), want);
        assert!(PlannedLoad::without_questions(1, 1).plan_flags().contains(&"word:0.001:20s".to_owned()));
    }
}
