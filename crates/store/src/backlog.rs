//! How much work has piled up: text that waits in the queue, and text that is due to be merged.
//!
//! A pure sum of two figures that others keep true: gathering tells of the queue each time it looks, also while it steps
//! aside, and compaction of what is due each time it plans.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::gauge::Gauge;

/// The debt of one store.
#[derive(Debug)]
pub(crate) struct CompactionBacklog {
    queued_bytes: AtomicU64,
    mergeable_bytes: AtomicU64,
    bytes_max: u64,
    gauge: Gauge,
}

impl CompactionBacklog {
    pub(crate) fn new(bytes_max: u64, shown: Gauge) -> Self {
        Self { queued_bytes: AtomicU64::new(0), mergeable_bytes: AtomicU64::new(0), bytes_max, gauge: shown }
    }

    /// Bytes of text in the queue that are not on the store.
    pub(crate) fn set_queued(&self, bytes: u64) {
        self.queued_bytes.store(bytes, Ordering::Relaxed);
        self.update_gauge();
    }

    /// Bytes of text on the store that should be merged.
    pub(crate) fn set_mergeable(&self, bytes: u64) {
        self.mergeable_bytes.store(bytes, Ordering::Relaxed);
        self.update_gauge();
    }

    /// Whether there is more than may be.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    fn bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::Relaxed).saturating_add(self.mergeable_bytes.load(Ordering::Relaxed))
    }

    fn update_gauge(&self) {
        self.gauge.set(i64::try_from(self.bytes()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_count() {
        let shown = Gauge::default();
        let debt = CompactionBacklog::new(100, shown.clone());
        debt.set_queued(60);
        debt.set_mergeable(40);
        assert!(!debt.is_exceeded());
        debt.set_mergeable(41);
        assert!(debt.is_exceeded());
        assert_eq!(shown.get(), 101);
        debt.set_queued(0);
        assert!(!debt.is_exceeded());
    }
}
