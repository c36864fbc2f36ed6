//! Tails at any node.
//!
//! A tail shows each record at most once. It shows all records accepted while the cluster is healthy.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use bucksaw_env::lock;

use bucksaw_query::{Answers, RecordRef, TailEvent};
use bucksaw_record::{Expr, Id};
use tokio::sync::oneshot;

use crate::ledger::{RecordLedger, Violation};
use crate::machine::Machine;

/// A tail that runs until this is dropped.
pub(crate) struct TailSession {
    seen: Arc<Mutex<SeenRecords>>,
    _stop: oneshot::Sender<()>,
}

#[derive(Default)]
struct SeenRecords {
    records: Vec<(Id, Arc<str>)>,
    /// The tail reported that records may be missing.
    is_partial: bool,
}

impl TailSession {
    /// Starts a tail at a machine; `None` if it is down.
    pub(crate) fn start(machine: &Machine) -> Option<Self> {
        let answers = machine.answers()?;
        let seen = Arc::new(Mutex::new(SeenRecords::default()));
        let (stop, mut stopped) = oneshot::channel();
        let records = Arc::clone(&seen);
        machine.host.spawn(async move {
            tokio::select! { biased;
                _ = &mut stopped => {}
                () = read_tail(&answers, &records) => {}
            }
        });
        Some(Self { seen, _stop: stop })
    }

    /// The violations of the records shown until now.
    pub(crate) fn check(&self, ledger: &RecordLedger) -> Vec<Violation> {
        let mut found = lock_records(&self.seen).records.clone();
        found.sort();
        ledger.check(&BTreeSet::new(), &found)
    }

    /// The same, and unless the tail is partial, it must have shown all `required` records.
    pub(crate) fn check_all(&self, ledger: &RecordLedger, required: &BTreeSet<Id>) -> Vec<Violation> {
        let (mut found, is_partial) = {
            let seen = lock_records(&self.seen);
            (seen.records.clone(), seen.is_partial)
        };
        found.sort();
        let none = BTreeSet::new();
        ledger.check(if is_partial { &none } else { required }, &found)
    }
}

async fn read_tail(answers: &Answers, seen: &Mutex<SeenRecords>) {
    let Ok(mut tail) = answers.tail(&Expr::All, None) else { return };
    while let Some(event) = tail.next().await {
        let mut seen = lock_records(seen);
        match event {
            TailEvent::Records(mut records) => {
                let text = |record: RecordRef<'_>| (record.id, String::from_utf8_lossy(record.view.line()).into());
                seen.records.extend(std::iter::from_fn(|| records.visit_next(text)));
            }
            _ => seen.is_partial = true,
        }
    }
}

fn lock_records(seen: &Mutex<SeenRecords>) -> MutexGuard<'_, SeenRecords> {
    lock(seen)
}
