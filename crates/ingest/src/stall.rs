//! Detects a disk that does not answer.
//!
//! A write or sync that hangs reports no error and blocks its thread. So the append slots, the tick and the group commit record
//! when they start, and other threads compare that with the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::to_millis;

/// See [`Queue::STALL_MAX`](crate::Queue::STALL_MAX).
pub(crate) const STALL_MAX: Duration = Duration::from_secs(10);

/// When work began: uptime in milliseconds plus 1; 0 while it is not running. For one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct RunningSince(AtomicU64);

/// Marks work as running until it is dropped.
pub(crate) struct StallGuard<'a>(&'a AtomicU64);

impl RunningSince {
    pub(crate) fn start(&self, uptime: Duration) -> StallGuard<'_> {
        self.0.store(to_millis(uptime).saturating_add(1), Ordering::Relaxed);
        StallGuard(&self.0)
    }

    /// Whether the work has taken longer than [`STALL_MAX`].
    pub(crate) fn is_stalled(&self, now: Duration) -> bool {
        let started = self.0.load(Ordering::Relaxed).checked_sub(1);
        started.is_some_and(|started| to_millis(now).saturating_sub(started) > to_millis(STALL_MAX))
    }
}

impl Drop for StallGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
