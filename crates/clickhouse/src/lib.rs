//! ClickHouse as the store of a node, a [`Store`](bucksaw_store::Store) over one table, and as a [sink](ClickHouseSink) beside
//! segments.
//!
//! ```text
//!   queue segments ─► rows (RowBinary) ─► INSERT with a token per piece ─► table, sorted by id
//!   query ─► expression as SQL, values as parameters ─► rows by id, equal ids dropped ─► checked by the plan of the query
//! ```
//! The SQL is only a first filter: it may return records that do not match, and never leaves out one that does. So an answer
//! is the same, byte for byte, as that of segments.
//!
//! Invariant: an insert is acknowledged only when ClickHouse has the rows. A repeated insert has the same tokens, so
//! ClickHouse drops it; what it does not recognise is dropped by readers, by id.
//! Invariant: a value of a user is a parameter of a statement, never a part of its text.
#![deny(clippy::indexing_slicing)]

mod client;
mod config;
mod database;
mod database_url;
mod error;
mod filter;
mod health;
mod insert;
mod metrics;
mod parameters;
mod pieces;
mod range;
mod row_decoder;
mod row_encoder;
mod row_group;
mod schema;
mod sink;
mod slices;
mod spool;
mod statement;
mod store;
mod table;

pub use config::{Config, Password};
pub use database_url::{DatabaseUrl, InvalidDatabaseUrl};
pub use error::ClickHouseError;
pub use metrics::Metrics;
pub use sink::ClickHouseSink;
pub use store::ClickHouseStore;
