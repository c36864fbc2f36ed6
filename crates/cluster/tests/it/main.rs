//! The cluster under a simulated network, clock and disk: one seed decides everything.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod facts;
mod faults;
mod hostile;
mod join;
mod test_cluster;
