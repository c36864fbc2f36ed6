//! Detects a disk that does not answer.
//!
//! A write or sync that hangs reports no error and blocks its thread. Therefore the tick and the group commit record when
//! they start, and other threads compare that with the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// See [`Queue::STALL_MAX`](crate::Queue::STALL_MAX).
pub(crate) const STALL_MAX: Duration = Duration::from_secs(10);

/// When the running tick and group commit started: uptime in milliseconds plus 1; 0 if none is running.
#[derive(Debug, Default)]
pub(crate) struct StallDetector {
    pub(crate) tick: AtomicU64,
    pub(crate) commit: AtomicU64,
}

/// Marks work as running until it is dropped.
pub(crate) struct StallGuard<'a>(&'a AtomicU64);

impl<'a> StallGuard<'a> {
    pub(crate) fn start(at: &'a AtomicU64, uptime: Duration) -> Self {
        at.store(millis(uptime).saturating_add(1), Ordering::Relaxed);
        Self(at)
    }
}

impl Drop for StallGuard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl StallDetector {
    /// Whether the tick or the group commit has taken longer than [`STALL_MAX`].
    pub(crate) fn is_stalled(&self, now: Duration) -> bool {
        [&self.tick, &self.commit].into_iter().any(|started_at| {
            let started = started_at.load(Ordering::Relaxed).checked_sub(1);
            started.is_some_and(|started| millis(now).saturating_sub(started) > millis(STALL_MAX))
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
