//! The program as a process: what it prints, how it exits, what it asks of a node.
#![expect(clippy::unwrap_used, reason = "these are tests; what helps them fails with them")]

mod golden;
mod life;
mod node;
mod order;
mod process;
mod search;
mod small;
