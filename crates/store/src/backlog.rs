//! The compaction backlog: text in the queue, and text that is due to be merged.
//!
//! [`Puller`](crate::Puller) updates the first number at each batch, and compaction the second while it merges.

use std::sync::atomic::{AtomicU64, Ordering};

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
        self.update(&self.queued_bytes, bytes);
    }

    /// Sets the bytes of stored text that are due to be merged.
    pub(crate) fn set_mergeable(&self, bytes: u64) {
        self.update(&self.mergeable_bytes, bytes);
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    fn bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::Relaxed).saturating_add(self.mergeable_bytes.load(Ordering::Relaxed))
    }

    /// Changes the gauge by the difference: a sum of both numbers could be outdated when it is set, as other threads set the
    /// other number.
    fn update(&self, part: &AtomicU64, bytes: u64) {
        let before = part.swap(bytes, Ordering::Relaxed);
        self.gauge.inc_by((bytes as i64).wrapping_sub(before as i64));
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
        assert_eq!(gauge.get(), 41);
    }
}
