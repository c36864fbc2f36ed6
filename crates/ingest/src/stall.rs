//! Whether the disk answers: how long the work that is under way has taken.
//!
//! A write or a sync that hangs reports no error, and blocks the thread that called it. So the tick and the group commit
//! record when they began, and other threads compare that with the clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::queue::Queue;

/// When the tick and the group commit that are under way began, by the uptime in milliseconds and one more; 0 when none is.
#[derive(Debug, Default)]
pub(crate) struct StallDetector {
    pub(crate) tick: AtomicU64,
    pub(crate) commit: AtomicU64,
}

/// Work that is under way until this is dropped.
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

impl Queue {
    /// A disk that has not finished a write or a sync within this counts as one that does not answer.
    pub const STALL_MAX: Duration = Duration::from_secs(10);

    /// Whether the disk does not answer. An append that hangs holds up the tick, which wants the same lane.
    pub(crate) fn is_stalled(&self) -> bool {
        let now = millis(self.env.clock.uptime());
        [&self.stall.tick, &self.stall.commit].into_iter().any(|at| {
            let began = at.load(Ordering::Relaxed).checked_sub(1);
            began.is_some_and(|began| now.saturating_sub(began) > millis(Self::STALL_MAX))
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
