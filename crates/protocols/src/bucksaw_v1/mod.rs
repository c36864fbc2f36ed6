//! The messages of Bucksaw's own service for gRPC, `bucksaw.v1`; `proto/bucksaw/v1/bucksaw.proto` documents them.
//!
//! Batches are read in place: [`BatchHead`] checks a whole batch, then [`decode_records`] gives its records to a sink. Replies
//! are written field by field.

mod batch;
mod client;
mod replies;
mod requests;

pub use batch::{BatchError, BatchHead, decode_records};
pub use client::BatchWriter;
pub use replies::{BatchReply, RecordParts, write_count, write_notice, write_record, write_statistics};
pub use requests::SearchRequest;

#[cfg(test)]
mod tests;
