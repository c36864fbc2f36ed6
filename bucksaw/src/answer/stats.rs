//! The statistics of an answer, printed to standard error.

use serde_json::Value;

use crate::exit::Exit;
use crate::failure::print_error;
use crate::one_line::one_line;
use crate::print::{human_bytes, human_seconds};

/// The statistics of an answer. A missing number is 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerStats(Value);

impl AnswerStats {
    /// Reads the field `stats` of an answer.
    pub(crate) fn from_answer(answer: &Value) -> Option<Self> {
        answer.get("stats").filter(|stats| stats.is_object()).cloned().map(Self)
    }

    /// Statistics as sent; anything else than an object has none.
    pub(crate) fn from_stats(stats: Value) -> Self {
        if stats.is_object() { Self(stats) } else { Self::default() }
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or_default()
    }

    /// Prints the hints, and why the answer is partial. Returns the exit code of a search: of trouble if the answer is partial,
    /// unless that is allowed.
    pub(crate) fn settle(&self, any: bool, allow_partial: bool) -> Exit {
        self.print_hints();
        self.print_partial();
        if self.is_partial() && !allow_partial { Exit::Trouble } else { Exit::found(any) }
    }

    /// Reports why the answer is partial, if it is, and which of its records are in the trash.
    pub(crate) fn print_partial(&self) {
        self.partial().into_iter().chain(self.trashed()).for_each(|line| print_error(&line));
    }

    /// Prints the hints on the expression.
    pub(crate) fn print_hints(&self) {
        self.hints().iter().for_each(|hint| print_error(hint));
    }

    fn hints(&self) -> Vec<String> {
        self.list("hints").filter_map(Value::as_str).map(|hint| format!("hint: {}", one_line(hint))).collect()
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.0["partial"] == true
    }

    fn trashed(&self) -> Option<String> {
        let (segments, records) = (self.number("trashed_segments"), self.number("trashed_records"));
        (segments > 0).then(|| {
            format!(
                "{segments} segments with {records} records of this time are in the trash and not in the answer: retention \
                 removed them, see 'bucksaw status'"
            )
        })
    }

    /// Prints the amounts read and the time taken.
    pub(crate) fn print(&self) {
        self.lines().iter().for_each(|line| print_error(line));
    }

    fn partial(&self) -> Option<String> {
        if !self.is_partial() {
            return None;
        }
        let reasons: Vec<String> = self.list("partial_reasons").filter_map(Value::as_str).map(one_line).collect();
        let reasons = match reasons.is_empty() {
            false => reasons.join("; "),
            true => format!("{} of {} nodes answered", self.number("nodes_answered"), self.number("nodes_asked")),
        };
        Some(format!("the answer is partial: {reasons}"))
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.0[name].as_array().into_iter().flatten()
    }

    fn lines(&self) -> Vec<String> {
        let seconds = self.0["seconds"].as_f64().unwrap_or_default();
        let mut lines = vec![
            format!("matched {} records in {}", self.number("matched"), human_seconds(seconds)),
            format!(
                "read {} in {} segments, skipped {} segments",
                human_bytes(self.number("bytes_scanned")),
                self.number("segments_read"),
                self.number("segments_skipped")
            ),
            format!("asked {} nodes, {} answered", self.number("nodes_asked"), self.number("nodes_answered")),
        ];
        lines.extend(self.list("nodes_missing").filter_map(|missing| missing["message"].as_str()).map(one_line));
        let damaged = self.list("damaged").count();
        if damaged > 0 {
            lines.push(format!("skipped {damaged} damaged files or blocks: see 'bucksaw verify'"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats(stats: Value) -> AnswerStats {
        AnswerStats::from_answer(&json!({ "stats": stats })).unwrap()
    }

    #[test]
    fn partial_answers_are_explained() {
        let check = |given: Value, want: Option<&str>| assert_eq!(stats(given).partial().as_deref(), want);
        check(json!({}), None);
        check(json!({"partial": false, "partial_reasons": ["x"]}), None);
        let two = json!({"partial": true, "partial_reasons": ["a is\ndown", "b is slow"]});
        check(two, Some("the answer is partial: a is down; b is slow"));
        let none = json!({"partial": true, "nodes_asked": 3, "nodes_answered": 2});
        check(none, Some("the answer is partial: 2 of 3 nodes answered"));
    }

    #[test]
    fn hints_are_one_line_each() {
        assert_eq!(stats(json!({"hints": ["write\n`a=b`", 7, "x"]})).hints(), ["hint: write `a=b`", "hint: x"]);
        assert_eq!(stats(json!({})).hints(), [""; 0]);
    }

    #[test]
    fn trashed_records_are_reported() {
        let want = "2 segments with 10800 records of this time are in the trash and not in the answer: retention \
                    removed them, see 'bucksaw status'";
        assert_eq!(stats(json!({"trashed_segments": 2, "trashed_records": 10_800})).trashed().as_deref(), Some(want));
        assert_eq!(stats(json!({"trashed_segments": 0})).trashed(), None);
    }

    #[test]
    fn statistics_are_printed() {
        let given = json!({
            "matched": 12, "segments_read": 3, "segments_skipped": 9, "bytes_scanned": 1536 << 10, "seconds": 0.034,
            "nodes_asked": 3, "nodes_answered": 2, "damaged": ["a.seg"],
            "nodes_missing": [{"address": "n3:1", "reason": "down", "message": "node n3:1\nis down"}],
        });
        let want = [
            "matched 12 records in 34 ms",
            "read 1.5 MB in 3 segments, skipped 9 segments",
            "asked 3 nodes, 2 answered",
            "node n3:1 is down",
            "skipped 1 damaged files or blocks: see 'bucksaw verify'",
        ];
        assert_eq!(stats(given).lines(), want);
        assert_eq!(stats(json!({"matched": "many"})).lines().len(), 3);
        assert!(AnswerStats::from_answer(&json!([])).is_none());
    }
}
