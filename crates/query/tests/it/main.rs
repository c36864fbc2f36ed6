//! Questions over clusters in simulated worlds: real membership, real calls over a simulated network, virtual time. One
//! seed decides everything.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod faults;
mod test_cluster;
