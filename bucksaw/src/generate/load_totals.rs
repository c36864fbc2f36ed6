//! What was generated, sent and acknowledged so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bucksaw_forward::AgentMonitor;

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoadTotals {
    /// Records that were written to standard output or are on their way to the node.
    pub(super) written_records: u64,
    /// Bytes of their text, with the line ends.
    pub(super) written_bytes: u64,
    /// Records that the node has acknowledged.
    pub(super) acked_records: u64,
    pub(super) acked_bytes: u64,
    /// Lines that were left out because the target took less than the rate.
    pub(super) late_records: u64,
}

/// Counts them. Cheap to clone; all clones are of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadCounters(Arc<AtomicTotals>);

#[derive(Debug, Default)]
struct AtomicTotals {
    written_records: AtomicU64,
    written_bytes: AtomicU64,
    acked_records: AtomicU64,
    acked_bytes: AtomicU64,
    late_records: AtomicU64,
    /// The agent that knows what is acknowledged, if one sends.
    agent: OnceLock<AgentMonitor>,
}

impl LoadCounters {
    pub(super) fn add_written(&self, records: u64, bytes: u64) {
        self.0.written_records.fetch_add(records, Ordering::Relaxed);
        self.0.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_acked(&self, records: u64, bytes: u64) {
        self.0.acked_records.fetch_add(records, Ordering::Relaxed);
        self.0.acked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_late(&self, records: u64) {
        self.0.late_records.fetch_add(records, Ordering::Relaxed);
    }

    /// From now on what is acknowledged is that of an agent.
    pub(super) fn follow(&self, agent: AgentMonitor) {
        drop(self.0.agent.set(agent));
    }

    /// The sums now. Never less than earlier ones.
    pub(super) fn totals(&self) -> LoadTotals {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Read before those that were written, which are at least as many.
        let agent = self.0.agent.get().and_then(|agent| agent.status(0));
        let (acked_records, acked_bytes) = match agent {
            Some(agent) => (agent.acked_records, agent.acked_bytes),
            None => (load(&self.0.acked_records), load(&self.0.acked_bytes)),
        };
        LoadTotals {
            written_records: load(&self.0.written_records),
            written_bytes: load(&self.0.written_bytes),
            acked_records,
            acked_bytes,
            late_records: load(&self.0.late_records),
        }
    }
}
