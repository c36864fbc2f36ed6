//! The HTTP surface: ingest, queries, status, and the page; and over gRPC OTLP and a service of its own.
//!
//! Handlers check a request, run it on threads that may block, and stream the answer. A slow reader slows only its own
//! query; a disconnect cancels it. `docs/http.md` describes every call.
//!
//! This crate binds no port, starts no runtime, and opens no file.

mod accept_encoding;
mod access;
mod admission;
mod agents;
mod app;
mod audit;
mod compress;
mod config;
mod connections;
mod detached;
mod erasures;
mod error;
#[cfg(test)]
mod fixtures;
mod fuzz;
mod groups;
mod grpc;
mod grpc_calls;
mod guard;
mod hints;
mod history;
mod ingest;
mod ingest_params;
mod metrics;
mod node;
mod page;
mod params;
mod permits;
mod query;
mod render;
mod replication;
mod senders;
mod server;
mod service;
mod sink;
mod stream;
mod streams;
mod tail;

pub use access::RouteAccess;
pub use app::{App, NodeInfo, StatusPart};
pub use config::Config;
#[doc(hidden)]
pub use fuzz::headers as fuzz_headers;
pub use metrics::Metrics;
pub use server::{grpc_methods, otlp_routes, routes, serve, serve_grpc, serve_otlp_grpc, serve_otlp_http};
