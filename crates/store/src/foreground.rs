//! Whether a client waits for an answer right now.
//!
//! A query holds a [`ForegroundGuard`] for each piece of work, from queueing for a thread until the work is done. A
//! query that waits for its reader holds none, so it does not throttle background work. Queries often follow each other
//! after one round trip. So the state lasts for a moment after the last piece of work. Otherwise a background block
//! would start in each gap, and take far longer than the gap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bucksaw_env::Clock;

/// How long the state lasts after the last piece of work.
pub(crate) const LINGER: Duration = Duration::from_millis(30);

/// Counts the work that clients wait for. All threads of a node share one.
#[derive(Debug)]
pub struct Foreground {
    clock: Arc<dyn Clock>,
    running: AtomicUsize,
    /// The uptime, in nanoseconds, until which finished work counts.
    lingers_until: AtomicU64,
}

/// Marks one piece of work that a client waits for, until it is dropped.
#[derive(Debug)]
pub struct ForegroundGuard(Arc<Foreground>);

impl Foreground {
    /// Nothing is marked.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, running: AtomicUsize::new(0), lingers_until: AtomicU64::new(0) })
    }

    /// Marks a piece of work. Never blocks.
    #[must_use = "the mark ends when this is dropped"]
    pub fn enter(self: &Arc<Self>) -> ForegroundGuard {
        self.running.fetch_add(1, Ordering::AcqRel);
        ForegroundGuard(Arc::clone(self))
    }

    /// Whether a client waits for work, or did a moment ago.
    pub fn is_busy(&self) -> bool {
        let running = self.running.load(Ordering::Acquire) > 0;
        running || nanos(self.clock.uptime()) < self.lingers_until.load(Ordering::Acquire)
    }
}

impl Drop for ForegroundGuard {
    fn drop(&mut self) {
        // In this order, so that it never looks idle in between.
        let until = nanos(self.0.clock.uptime() + LINGER);
        self.0.lingers_until.fetch_max(until, Ordering::AcqRel);
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_env::sim;

    #[test]
    fn work_counts_until_a_moment_after_its_end() {
        let clock = Arc::new(sim::Clock::at_unix_ms(0));
        let foreground = Foreground::new(Arc::clone(&clock) as _);
        assert!(!foreground.is_busy());
        let (first, second) = (foreground.enter(), foreground.enter());
        clock.advance(10 * LINGER);
        drop(first);
        clock.advance(10 * LINGER);
        assert!(foreground.is_busy(), "the second still runs");
        drop(second);
        clock.advance(LINGER / 2);
        assert!(foreground.is_busy(), "another query may follow");
        clock.advance(LINGER / 2);
        assert!(!foreground.is_busy());
    }
}
