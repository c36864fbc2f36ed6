//! Queries over clusters in simulated worlds: real membership and calls over a simulated network in virtual time. One seed
//! decides everything.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod faults;
mod test_cluster;
