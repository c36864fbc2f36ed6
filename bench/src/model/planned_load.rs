//! The loads for which predictions and measurements are compared: three rates, two lengths of lines, with questions and
//! without.

use std::time::Duration;

/// Bytes of text per request.
pub(super) const REQUEST_BYTES: u64 = 64 << 10;

/// The range of each question, and questions per hour.
pub(super) const RANGE: Duration = Duration::from_secs(20);
pub(super) const QUESTIONS_PER_HOUR: u32 = 18_000;

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedLoad {
    /// Mean bytes of text per second.
    pub(super) bytes_per_second: u64,
    /// Mean bytes of a line.
    pub(super) line_bytes: u64,
    /// Whether questions are asked.
    pub(super) has_questions: bool,
}

impl PlannedLoad {
    /// All of them.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for bytes_per_second in [2_000_000, 8_000_000, 24_000_000] {
            for line_bytes in [150, 1_500] {
                for has_questions in [false, true] {
                    all.push(Self { bytes_per_second, line_bytes, has_questions });
                }
            }
        }
        all
    }

    /// Its name in tables and files.
    pub(super) fn name(self) -> String {
        let questions = if self.has_questions { ", questions" } else { "" };
        format!("{} MB/s, {} B{questions}", self.bytes_per_second / 1_000_000, self.line_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_names_of_their_own() {
        let mut names: Vec<String> = PlannedLoad::all().into_iter().map(PlannedLoad::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12);
        assert!(names.iter().any(|name| name == "24 MB/s, 1500 B, questions"), "{names:?}");
    }
}
