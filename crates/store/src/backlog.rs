//! The compaction backlog: text in the queue, and text that is due to be merged.
//!
//! [`Puller`](crate::Puller) updates the first number at each batch, and compaction the second at each plan.

use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::set_gauge;
use prometheus_client::metrics::gauge::Gauge;

/// The backlog of one store.
#[derive(Debug)]
pub(crate) struct CompactionBacklog {
    queued_bytes: AtomicU64,
    mergeable_bytes: AtomicU64,
    bytes_max: u64,
    gauge: Gauge,
}

impl CompactionBacklog {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Self {
        Self { queued_bytes: AtomicU64::new(0), mergeable_bytes: AtomicU64::new(0), bytes_max, gauge }
    }

    /// Sets the bytes of text in the queue that are not stored.
    pub(crate) fn set_queued(&self, bytes: u64) {
        self.queued_bytes.store(bytes, Ordering::Relaxed);
        self.update_gauge();
    }

    /// Sets the bytes of stored text that are due to be merged.
    pub(crate) fn set_mergeable(&self, bytes: u64) {
        self.mergeable_bytes.store(bytes, Ordering::Relaxed);
        self.update_gauge();
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    fn bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::Relaxed).saturating_add(self.mergeable_bytes.load(Ordering::Relaxed))
    }

    fn update_gauge(&self) {
        set_gauge(&self.gauge, self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_and_mergeable_bytes_add_up() {
        let gauge = Gauge::default();
        let backlog = CompactionBacklog::new(100, gauge.clone());
        backlog.set_queued(60);
        backlog.set_mergeable(40);
        assert!(!backlog.is_exceeded());
        backlog.set_mergeable(41);
        assert!(backlog.is_exceeded());
        assert_eq!(gauge.get(), 101);
        backlog.set_queued(0);
        assert!(!backlog.is_exceeded());
    }
}
