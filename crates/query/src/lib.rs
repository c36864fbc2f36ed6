//! Queries over the records of the queue and the store: searches, counts, fields, context and tails.
//!
//! ```text
//!   request ── snapshot: queue, then store ──► units (queue segments, blocks) that may match
//!           ── scan on the pool: skip filter first ──► matches ──► merge by id, drop equal ids, stop at the limit ──► reader
//! ```
//! A unit is scanned only when the reader needs it, so an abandoned query stops within one unit. Unread matches of all
//! queries share one [budget](Config::result_bytes_max). A query reserves at most as much as it leaves free. It
//! continues in parts when memory is short, and releases its memory when its reader stalls. Counts build no lines, and
//! examine ids only where two units may contain the same record.
//!
//! A node of a cluster queries all nodes ([`Scatter`]); each serves its own records ([`QueryServer`]).
//!
//! Invariant: an answer contains each record that was accepted before the request exactly once, even if the record
//! moves from the queue to the store meanwhile. The snapshot lists the queue first, and skips a queue segment if a
//! stored segment names it as origin.
//! Invariant: [`QueryStats`] reports everything that could not be read; an answer is never partial silently.

mod answers;
mod block;
mod block_cache;
mod buffer_pool;
mod column_records;
mod column_scan;
mod context;
mod count;
mod dispatch;
mod engine;
mod fields;
mod group_sample;
mod grouping;
mod local_tail;
mod match_buffer;
mod metrics;
mod partial_result;
mod pool;
mod question_work;
mod range_scan;
mod recent_ids;
mod record_stream;
mod request;
mod result_budget;
mod scan_memory;
mod scatter;
mod search;
mod snapshot;
mod stats;
mod streams;
mod tail;
mod tail_event;
mod tail_stream;
mod text_scan;
mod unit;
mod unknown_fields;

pub use answers::{AnswerRecords, Answers};
pub use bucksaw_scan::{CompileError, Level};
pub use bucksaw_scan::{MEMORY_BYTES_MAX as AUTOMATA_BYTES_MAX, limit_memory as limit_automata};
pub use count::{Bucket, Bucketing, Histogram};
pub use engine::{Config, Engine};
pub use fields::{FieldKind, FieldValue, FieldValues, Fields, NumberRange};
pub use group_sample::GroupBy;
pub use grouping::Grouping;
pub use match_buffer::{OwnedRecord, RecordRef, RecordRun};
pub use metrics::Metrics;
pub use pool::ScanPool;
pub use record_stream::{RecordSink, SinkClosed};
pub use request::{Order, Request, RequestError};
#[doc(hidden)]
pub use scatter::decode_all_formats;
pub use scatter::{
    GossipPeers, QueryPeer, QueryPeers, QueryServer, RepairHints, ReplyTimeouts, Scatter, re_replicated_stores,
};
pub use stats::{MissingNode, MissingReason, NodeStats, QueryStats, TrashStats};
pub use streams::{StreamSize, Streams};
pub use tail_event::{TailEvent, TailRecords};
pub use tail_stream::TailStream;
pub use unknown_fields::UnknownField;

#[cfg(test)]
mod tests;
