//! Questions over clusters in simulated worlds: real membership, real calls over a simulated network, virtual time. One
//! seed decides everything.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod faults;
mod town;
