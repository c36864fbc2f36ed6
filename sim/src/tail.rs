//! People who follow new records, at any node.
//!
//! Each record comes once at most. Those that were accepted while nobody was lost come all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucksaw_query::{Answers, RecordRef, TailEvent};
use bucksaw_record::{Expr, Id};
use tokio::sync::oneshot;

use crate::ledger::{RecordLedger, Violation};
use crate::machine::Machine;

/// One who follows, until this is dropped.
pub(crate) struct TailSession {
    seen: Arc<Mutex<SeenRecords>>,
    _stop: oneshot::Sender<()>,
}

#[derive(Default)]
struct SeenRecords {
    records: Vec<(Id, Arc<str>)>,
    /// Something may not have been shown, and it was said.
    is_partial: bool,
}

impl TailSession {
    /// Follows at a machine; `None` when it is not up.
    pub(crate) fn start(machine: &Machine) -> Option<Self> {
        let answers = machine.answers()?;
        let seen = Arc::new(Mutex::new(SeenRecords::default()));
        let (stop, mut stopped) = oneshot::channel();
        let shown = Arc::clone(&seen);
        machine.host.spawn(async move {
            tokio::select! { biased;
                _ = &mut stopped => {}
                () = read_tail(&answers, &shown) => {}
            }
        });
        Some(Self { seen, _stop: stop })
    }

    /// What is wrong with what was shown so far.
    pub(crate) fn check(&self, ledger: &RecordLedger) -> Vec<Violation> {
        let mut found = lock_records(&self.seen).records.clone();
        found.sort();
        ledger.check(&BTreeSet::new(), &found)
    }

    /// The same, and all of these must have been shown, unless it was said that something may not be.
    pub(crate) fn check_all(&self, ledger: &RecordLedger, due: &BTreeSet<Id>) -> Vec<Violation> {
        let (mut found, is_partial) = {
            let seen = lock_records(&self.seen);
            (seen.records.clone(), seen.is_partial)
        };
        found.sort();
        let none = BTreeSet::new();
        ledger.check(if is_partial { &none } else { due }, &found)
    }
}

async fn read_tail(answers: &Answers, seen: &Mutex<SeenRecords>) {
    let Ok(mut tail) = answers.tail(&Expr::All) else { return };
    while let Some(event) = tail.next().await {
        let mut seen = lock_records(seen);
        match event {
            TailEvent::Records(mut records) => {
                let text = |record: RecordRef<'_>| (record.id, String::from_utf8_lossy(record.text).into());
                seen.records.extend(std::iter::from_fn(|| records.visit_next(text)));
            }
            _ => seen.is_partial = true,
        }
    }
}

fn lock_records(seen: &Mutex<SeenRecords>) -> MutexGuard<'_, SeenRecords> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
