//! The program as a process: its output, its exit codes, and its requests to a node.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod golden;
mod life;
mod node;
mod order;
mod plan;
mod process;
mod search;
mod small;
mod terminal;
