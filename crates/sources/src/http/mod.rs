//! Bodies of HTTP requests: lines, NDJSON, or events in a protocol of another log system; compressed or not.
//!
//! ```text
//!   chunks ─► BodyReader ─► Decompressor ─► BodyRecords ─► RecordStream ─► queue
//!             waits for BodyMemory          collects up to 1 MiB
//! ```
//! A body of events is collected and decoded as a whole, up to 16 MiB: `EventBody` stands in the place of `BodyRecords`.
//! Journal entries are decoded while they arrive, in a body that need not end: `JournalBody`.
//!
//! Others are processed while they arrive, so their length is not limited. Up to 1 MiB of records are appended at once: a body up
//! to that size is accepted atomically. If a longer one fails, the error has the number of records that were
//! accepted before.
//!
//! This module knows no routes, headers or status codes. `api` maps a request to an [`IngestRequest`] and a
//! [`BodyError`] to a reply.

mod body_consumer;
mod body_error;
mod body_intake;
mod body_memory;
mod body_reader;
mod body_records;
mod decompressor;
mod event_body;
mod journal_body;
mod metrics;
mod ndjson;
mod request;

pub use body_error::{BodyError, BodyErrorReason};
pub use body_intake::{BodyIntake, body_bytes_max};
pub use body_reader::{BodyChunks, BodyLimits};
pub use event_body::{BatchPlan, BatchRequest, EventRequest};
pub use journal_body::JournalReply;
pub use metrics::BodyMetrics;
pub use ndjson::event_time;
pub use request::{BodyFormat, Encoding, IngestReply, IngestRequest};
