//! The listeners by their public door: real sockets, a real queue on a simulated disk.
#![cfg(test)]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests may fail a test")]

mod framed;
mod full;
mod lines;
mod node;
mod stop;
