//! The HTTP surface: ingest, queries, and what operators look at.
//!
//! Handlers check what came in, hand the work to threads of its own, and stream what comes back; a reader that is slow
//! slows its own query only, and one that goes away ends it. What every call takes and gives is told in `docs/http.md`.
//!
//! What it does not do: it binds no port, starts no runtime, and knows no files.

mod admission;
mod app;
mod config;
mod error;
mod guard;
mod history;
mod ingest;
mod metrics;
mod node;
mod page;
mod params;
mod permits;
mod query;
mod render;
mod replication;
mod server;
mod sink;
mod socket;
mod stream;
mod tail;

pub use app::{App, NodeInfo};
pub use config::Config;
pub use metrics::Metrics;
pub use server::serve;
