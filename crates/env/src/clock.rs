//! Time.

use std::fmt::Debug;
use std::time::Duration;

/// Tells the time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970 by the wall clock, which may jump either way.
    fn unix_ms(&self) -> u64;

    /// Time since some fixed moment; never goes back.
    fn uptime(&self) -> Duration;
}
