//! The product at its doors: real processes, real sockets, real files, and what is said about them.
//!
//! Every node gets ports of its own from the system and a directory of its own; what a test waits for is a condition,
//! for a bounded time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests of a real process: what helps them fails with them, and files and clocks are the real ones"
)]

mod balance;
mod child_process;
mod cli;
mod client;
mod cluster;
mod corpus;
mod disk;
mod faults;
mod hostile;
mod http;
mod kill;
mod memory;
mod node;
mod pattern;
mod same_as_grep;
mod wait;
