//! The agent by its public door: real sockets, to real listeners, mostly.
#![cfg(test)]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests may fail a test")]

mod node;
mod ship;
mod trouble;
