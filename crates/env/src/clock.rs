//! Wall clock and uptime.

use std::fmt::Debug;
use std::time::Duration;

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970. The wall clock may jump forward or back.
    fn unix_ms(&self) -> u64;

    /// Time since a fixed moment. Never decreases.
    fn uptime(&self) -> Duration;

    /// Blocks the thread for this time. A simulated clock returns at once: blocking work takes no simulated time.
    fn sleep(&self, time: Duration);
}

/// A duration in whole milliseconds.
pub fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
