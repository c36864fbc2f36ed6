//! The product over its public interface: real processes, sockets and files.
//!
//! Every node has free ports and its own directory. Tests wait for conditions, with a limit.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests of a real process: what helps them fails with them, and files and clocks are the real ones"
)]

mod access;
mod balance;
mod child_process;
mod cli;
mod clickhouse_server;
mod clickhouse_store;
mod client;
mod cluster;
mod containers;
mod corpus;
mod disk;
mod export;
mod faults;
mod forward;
mod hostile;
mod http;
mod import;
mod kafka;
mod kill;
mod line_times;
mod little;
mod memory;
mod node;
mod pattern;
mod pipeline;
mod ports;
mod same_as_grep;
mod senders;
mod tailing;
mod tls;
mod wait;
