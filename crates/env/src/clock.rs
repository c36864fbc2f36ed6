//! The wall clock and the uptime.

use std::fmt::Debug;
use std::time::Duration;

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970 by the wall clock, which may jump either way.
    fn unix_ms(&self) -> u64;

    /// Time since a fixed moment; never decreases.
    fn uptime(&self) -> Duration;
}
