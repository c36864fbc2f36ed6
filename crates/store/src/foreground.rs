//! Whether somebody waits for an answer right now.
//!
//! Those who answer say so by a [`Busy`] for each piece of work, from when it waits for a thread until it is done. A query
//! that only waits for its own slow reader holds none, and so holds up nobody. Questions often come in a row, with
//! nothing but the way to the client and back in between; a moment after the last piece of work still counts, or each of
//! these gaps would be filled with a block that takes far longer than the gap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bucksaw_env::Clock;

/// How long after the last piece of work another one is expected.
pub(crate) const LINGER: Duration = Duration::from_millis(30);

/// Counts the work that others step aside for. One for a node, shared by all of its threads.
#[derive(Debug)]
pub struct Foreground {
    clock: Arc<dyn Clock>,
    running: AtomicUsize,
    /// The uptime, in nanoseconds, up to which the work that was done last still counts.
    lingers_until: AtomicU64,
}

/// A piece of work that somebody waits for, until it is dropped.
#[derive(Debug)]
pub struct ForegroundGuard(Arc<Foreground>);

impl Foreground {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, running: AtomicUsize::new(0), lingers_until: AtomicU64::new(0) })
    }

    /// Says that somebody waits for a piece of work. Never waits itself.
    #[must_use = "the work is over when this is dropped"]
    pub fn enter(self: &Arc<Self>) -> ForegroundGuard {
        self.running.fetch_add(1, Ordering::AcqRel);
        ForegroundGuard(Arc::clone(self))
    }

    /// Whether somebody waits, or did a moment ago.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let running = self.running.load(Ordering::Acquire) > 0;
        running || nanos(self.clock.uptime()) < self.lingers_until.load(Ordering::Acquire)
    }
}

impl Drop for ForegroundGuard {
    fn drop(&mut self) {
        // The moment first: between the two it must not look idle.
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
        assert!(foreground.is_busy(), "the other still runs");
        drop(second);
        clock.advance(LINGER / 2);
        assert!(foreground.is_busy(), "another may follow");
        clock.advance(LINGER / 2);
        assert!(!foreground.is_busy());
    }
}
