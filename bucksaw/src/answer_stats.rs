//! What a node says about its answer, told to people on standard error.

use serde_json::{Map, Value};

use crate::failure::print_error;
use crate::node_client::one_line;
use crate::print::{human_bytes, human_seconds};

/// The statistics of an answer. A number that a node does not send is 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerStats(Map<String, Value>);

impl AnswerStats {
    /// Reads `{"stats":{…}}`, which may have more beside it.
    pub(crate) fn from_answer(answer: &Value) -> Option<Self> {
        answer.get("stats").and_then(Value::as_object).map(|stats| Self(stats.clone()))
    }

    /// A count.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.0.get(key).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Says that the answer is partial, if it is, and why; and that there is something of its time in the trash.
    pub(crate) fn print_partial(&self) {
        if let Some(reasons) = self.partial() {
            print_error(&format!("the answer is partial: {reasons}"));
        }
        if let Some(trashed) = self.trashed() {
            print_error(&trashed);
        }
    }

    fn trashed(&self) -> Option<String> {
        let (segments, records) = (self.number("trashed_segments"), self.number("trashed_records"));
        (segments > 0).then(|| {
            format!(
                "{segments} segments with {records} records reach into this time and are in the trash, not in the answer: retention removed them, see \
                 'bucksaw status'"
            )
        })
    }

    /// Says what was read and how long it took.
    pub(crate) fn print(&self) {
        self.lines().iter().for_each(|line| print_error(line));
    }

    fn partial(&self) -> Option<String> {
        if self.0.get("partial").and_then(Value::as_bool) != Some(true) {
            return None;
        }
        let reasons = self.0.get("partial_reasons").and_then(Value::as_array);
        let reasons: Vec<String> = reasons.into_iter().flatten().filter_map(Value::as_str).map(one_line).collect();
        if !reasons.is_empty() {
            return Some(reasons.join("; "));
        }
        Some(format!("{} of {} nodes answered", self.number("nodes_answered"), self.number("nodes_asked")))
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten()
    }

    fn lines(&self) -> Vec<String> {
        let seconds = self.0.get("seconds").and_then(Value::as_f64).unwrap_or_default();
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
        for missing in self.list("nodes_missing").filter_map(|missing| missing.get("message")?.as_str()) {
            lines.push(one_line(missing));
        }
        let damaged = self.list("damaged").count();
        if damaged > 0 {
            lines.push(format!("{damaged} damaged places were left out: see 'bucksaw verify'"));
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
        check(json!({"partial": true, "partial_reasons": ["a is\ndead", "b is slow"]}), Some("a is dead; b is slow"));
        check(json!({"partial": true, "nodes_asked": 3, "nodes_answered": 2}), Some("2 of 3 nodes answered"));
    }

    #[test]
    fn what_is_in_the_trash_is_told() {
        let want = "2 segments with 10800 records reach into this time and are in the trash, not in the answer: retention \
                    removed them, see 'bucksaw status'";
        assert_eq!(stats(json!({"trashed_segments": 2, "trashed_records": 10_800})).trashed().as_deref(), Some(want));
        assert_eq!(stats(json!({"trashed_segments": 0})).trashed(), None);
    }

    #[test]
    fn statistics_are_told() {
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
            "1 damaged places were left out: see 'bucksaw verify'",
        ];
        assert_eq!(stats(given).lines(), want);
        assert_eq!(stats(json!({"matched": "many"})).lines().len(), 3);
        assert!(AnswerStats::from_answer(&json!([])).is_none());
    }
}
