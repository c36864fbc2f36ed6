//! The audit trail: who asked what, who changed what, and who was refused, as records of Bucksaw itself.
//!
//! An entry is a record of the stream `_bucksaw=audit`: one JSON object per line. Clients cannot write this stream, because
//! [`Intake`] renames their label of that name, and a client with a label scope reads it only if the scope names it. It is
//! searched, replicated and removed as all other records are.
//!
//! Entries wait in memory until a blocking thread appends them, so a slow disk delays no request. What the queue refuses is
//! appended with the next entry. Entries beyond [`WAITING_MAX`] are dropped and counted: the next entry that is written states
//! how many. Of refusals, which anybody can cause, only [`REFUSALS_PER_SECOND`] are written; the next one states how many
//! were left out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bucksaw_env::{LogLimits, Reload, Tasks, lock, log_limited};
use bucksaw_ingest::{Durability, Source};
use bucksaw_record::Labels;
use serde_json::{Map, Value};

use crate::intake::{IdAssignment, Intake, RecordBuffer, RecordStream};

/// The value of the reserved label.
const STREAM: &str = "audit";

/// Entries that wait for the queue. Each has a few hundred bytes, and at most [`DETAIL_CHARS_MAX`] characters per detail.
const WAITING_MAX: usize = 4_096;

/// Entries that one frame has.
const FRAME_ENTRIES_MAX: usize = 256;

/// Refusals that are written in one second.
const REFUSALS_PER_SECOND: u32 = 10;

/// Characters that are kept of a value.
const DETAIL_CHARS_MAX: usize = 2_000;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// It was carried out, or its answer began.
    Allowed,
    /// The client may not do this, or could not prove who it is.
    Refused,
    /// The request was invalid, or the node could not carry it out.
    Failed,
}

/// What is written of one request or change.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a> {
    /// What was asked: `query`, `forget`, `log-in`, `reload`, …
    pub action: &'a str,
    /// The name of the principal; `None` if the client is unknown.
    pub who: Option<&'a str>,
    /// The address of the client, if it has one.
    pub client: Option<&'a str>,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// Further facts, such as the expression. A name of the fields above is ignored.
    pub details: &'a [(&'a str, &'a str)],
}

/// Writes the audit trail of a node.
#[derive(Debug)]
pub struct AuditTrail {
    stream: RecordStream,
    node: String,
    tasks: Arc<dyn Tasks>,
    state: Mutex<TrailState>,
    /// Held while entries are appended, so that they keep their order.
    ids: Mutex<IdAssignment>,
    log_limits: LogLimits,
}

#[derive(Debug, Default)]
struct TrailState {
    /// Entries that are not yet in the queue, oldest first.
    waiting: VecDeque<Vec<u8>>,
    /// Whether work to append them is scheduled.
    is_scheduled: bool,
    /// Entries that were dropped since the last one that was written.
    lost: u64,
    refusals: RefusalBudget,
}

/// The refusals of the current second.
#[derive(Debug, Default)]
struct RefusalBudget {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl RefusalBudget {
    /// The number of refusals that were left out before this one; `None` if this one is left out too.
    fn admit(&mut self, second: u64) -> Option<u64> {
        if self.second != second {
            (self.second, self.written) = (second, 0);
        }
        if self.written >= REFUSALS_PER_SECOND {
            self.suppressed += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl AuditTrail {
    /// The trail of the node `node`, in the queue of `intake`. `tasks` appends.
    #[must_use]
    pub fn new(intake: Intake, node: String, tasks: Arc<dyn Tasks>) -> Arc<Self> {
        let intake = intake.for_own_records();
        let ids = Mutex::new(IdAssignment::arrival(&intake));
        let log_limits = LogLimits::new(Arc::clone(&intake.env.clock));
        // Both are valid.
        let labels = Labels::new([(Labels::RESERVED_NAME, STREAM)]).unwrap_or_default();
        let stream = RecordStream { intake, source: Source::Audit, labels, durability: Durability::Fast };
        Arc::new(Self { stream, node, tasks, state: Mutex::default(), ids, log_limits })
    }

    /// Writes an entry, soon. Does not block.
    pub fn record(self: &Arc<Self>, entry: &AuditEntry<'_>) {
        let mut state = lock(&self.state);
        let mut suppressed = 0;
        if entry.outcome == AuditOutcome::Refused {
            match state.refusals.admit(self.stream.intake.now().0 / 1_000) {
                Some(left_out) => suppressed = left_out,
                None => return,
            }
        }
        if state.waiting.len() >= WAITING_MAX {
            state.lost += 1;
            self.stream.intake.queue.metrics().audit_entries_lost.inc();
            log_limited!(self.log_limits, warn, "entries of the audit trail are lost: the queue does not take them");
        } else {
            let lost = std::mem::take(&mut state.lost);
            state.waiting.push_back(self.line(entry, suppressed, lost));
        }
        if !std::mem::replace(&mut state.is_scheduled, true) {
            drop(state);
            let trail = Arc::clone(self);
            // The work runs to its end, whether it is waited for or not.
            drop(self.tasks.spawn_blocking(Box::new(move || trail.flush())));
        }
    }

    /// Writes an entry of a changed file that was read again.
    pub fn record_reload(self: &Arc<Self>, reload: &Reload<'_>) {
        let path = reload.path.display().to_string();
        let file = [("file", reload.name), ("path", &path)];
        let failure = reload.failure.map(|failure| ("failure", failure));
        let details: Vec<_> = file.into_iter().chain(failure).collect();
        let outcome = if reload.failure.is_some() { AuditOutcome::Failed } else { AuditOutcome::Allowed };
        self.record(&AuditEntry { action: "reload", who: None, client: None, outcome, details: &details });
    }

    /// Appends what waits. Blocks. A node calls it before it closes its queue.
    pub fn flush(&self) {
        let mut ids = lock(&self.ids);
        loop {
            let mut entries: Vec<Vec<u8>> = {
                let mut state = lock(&self.state);
                state.is_scheduled = false;
                let count = state.waiting.len().min(FRAME_ENTRIES_MAX);
                state.waiting.drain(..count).collect()
            };
            if entries.is_empty() {
                return;
            }
            let mut buffer = RecordBuffer::new(entries.iter().map(Vec::len).sum());
            entries.iter().for_each(|entry| buffer.push_line(entry, 0));
            let appended = buffer.with_records(|records| {
                let meta = self.stream.prepare(&mut ids, records, None, false)?;
                self.stream.append(&meta, records.text, |_| {})
            });
            if let Err(refusal) = appended {
                log_limited!(self.log_limits, warn, %refusal, "the queue does not take the audit trail: its entries wait");
                let mut state = lock(&self.state);
                entries.drain(..).rev().for_each(|entry| state.waiting.push_front(entry));
                return;
            }
        }
    }

    fn line(&self, entry: &AuditEntry<'_>, suppressed: u64, lost: u64) -> Vec<u8> {
        let mut object = Map::new();
        for (name, value) in entry.details {
            object.insert((*name).to_owned(), cut(value).into());
        }
        let outcome = match entry.outcome {
            AuditOutcome::Allowed => "allowed",
            AuditOutcome::Refused => "refused",
            AuditOutcome::Failed => "failed",
        };
        let text = [("action", Some(entry.action)), ("outcome", Some(outcome)), ("node", Some(&*self.node))];
        for (name, value) in text.into_iter().chain([("who", entry.who), ("client", entry.client)]) {
            match value {
                Some(value) => drop(object.insert(name.to_owned(), cut(value).into())),
                // No detail takes its place.
                None => drop(object.remove(name)),
            }
        }
        for (name, number) in [("refusals_left_out", suppressed), ("entries_lost", lost)] {
            if number > 0 {
                object.insert(name.to_owned(), number.into());
            }
        }
        format!("{}\n", Value::Object(object)).into_bytes()
    }
}

/// The beginning of a text.
fn cut(text: &str) -> String {
    text.chars().take(DETAIL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {

    use bucksaw_env::sim;
    use bucksaw_record::LabelScope;

    use super::*;
    use crate::intake::tests::stream;

    const ENTRY: AuditEntry<'_> = AuditEntry {
        action: "query",
        who: Some("alice"),
        client: Some("10.0.0.7"),
        outcome: AuditOutcome::Allowed,
        details: &[("q", "a \"b\"\n"), ("who", "mallory")],
    };

    /// The labels and lines in the queue.
    fn written(intake: &Intake) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        for view in intake.queue.readable_segments().iter().map(|segment| segment.view()) {
            let mut frames = view.frames(bucksaw_segment::queue::HEADER_LEN as u64);
            while let Some(chunk) = frames.next_chunk().unwrap() {
                for record in chunk.records() {
                    found.push((chunk.labels.to_string(), serde_json::from_slice(record).unwrap()));
                }
            }
        }
        found
    }

    fn trail() -> (Intake, Arc<AuditTrail>) {
        let intake = stream(Source::Http).intake;
        let tasks = Arc::new(sim::InlineTasks::new(Arc::new(sim::Clock::at_unix_ms(1))));
        (intake.clone(), AuditTrail::new(intake, "n1".to_owned(), tasks))
    }

    #[test]
    fn an_entry_is_a_record_of_a_stream_that_clients_cannot_write() {
        let (intake, trail) = trail();
        let scope = LabelScope::new(Labels::parse("tenant=a").unwrap());
        // Not even a scope of the caller changes its labels.
        let trail_of_tenant =
            AuditTrail::new(intake.clone().within(Some(&scope)), "n1".to_owned(), trail.tasks.clone());
        trail.record(&ENTRY);
        trail_of_tenant.record(&AuditEntry { who: None, client: None, outcome: AuditOutcome::Failed, ..ENTRY });
        let want = [
            (r#"{"action":"query","client":"10.0.0.7","node":"n1","outcome":"allowed","q":"a \"b\"\n","who":"alice"}"#),
            (r#"{"action":"query","node":"n1","outcome":"failed","q":"a \"b\"\n"}"#),
        ];
        let want = want.map(|line| ("_bucksaw=audit".to_owned(), serde_json::from_str(line).unwrap()));
        assert_eq!(written(&intake), want);
    }

    #[test]
    fn refusals_are_limited_and_counted() {
        let (intake, trail) = trail();
        let refused = AuditEntry { outcome: AuditOutcome::Refused, ..ENTRY };
        (0..100).for_each(|_| trail.record(&refused));
        trail.record(&ENTRY);
        assert_eq!(written(&intake).len(), 11, "others are not limited");
        assert_eq!(lock(&trail.state).refusals.admit(u64::MAX), Some(90), "the next second states them");
    }

    #[test]
    fn entries_wait_while_the_queue_refuses_them_and_losses_are_stated() {
        let (intake, trail) = trail();
        lock(&trail.state).is_scheduled = true;
        (0..WAITING_MAX + 5).for_each(|_| trail.record(&ENTRY));
        trail.flush();
        assert_eq!(written(&intake).len(), WAITING_MAX);
        assert_eq!(intake.queue.metrics().audit_entries_lost.get(), 5);
        trail.record(&ENTRY);
        assert!(written(&intake).iter().any(|(_, entry)| entry["entries_lost"] == 5));
    }

    #[test]
    fn long_details_are_cut() {
        let (intake, trail) = trail();
        let long = "ä".repeat(10_000);
        trail.record(&AuditEntry { details: &[("q", &long)], ..ENTRY });
        assert_eq!(written(&intake)[0].1["q"].as_str().unwrap().chars().count(), DETAIL_CHARS_MAX);
    }
}
