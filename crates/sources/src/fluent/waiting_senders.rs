//! Senders that wait for acknowledgements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the acknowledgements of Fluentd's protocol that senders wait for, so that a runtime that pauses knows when it should
/// not. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WaitingSenders(Arc<WaitCounts>);

#[derive(Debug, Default)]
struct WaitCounts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A sender that waits until this is dropped.
#[derive(Debug)]
pub struct WaitingSender(WaitingSenders);

impl WaitingSenders {
    /// Counts one more.
    #[must_use]
    pub fn begin(&self) -> WaitingSender {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        WaitingSender(self.clone())
    }

    /// The waits so far that have ended.
    pub fn ended(&self) -> u64 {
        self.0.ended.load(Ordering::Relaxed)
    }

    /// Whether a sender waits.
    pub fn is_any(&self) -> bool {
        self.ended() != self.0.begun.load(Ordering::Relaxed)
    }
}

impl Drop for WaitingSender {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_dropped() {
        let waiting = WaitingSenders::default();
        assert!(!waiting.is_any());
        let (first, second) = (waiting.begin(), waiting.clone().begin());
        drop(first);
        assert!(waiting.is_any() && waiting.ended() == 1);
        drop(second);
        assert!(!waiting.is_any() && waiting.ended() == 2);
    }
}
