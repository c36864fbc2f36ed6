//! Answers: time-bounded grep over what the queue and the store hold.
//!
//! ```text
//!   request ── snapshot: queue first, then store ──► units (queue segments, blocks), those that cannot match left out
//!           ── scan each on the pool: filter first ──► hits ──► merge by id, drop equal ids, stop at the limit ──► out
//! ```
//! A unit is scanned only when its turn comes and the reader wants more, so an abandoned query stops within a unit. What was
//! found and is not yet read is held within one [budget](Config::held_bytes_max) for all queries: none holds more than it
//! leaves to the others, one that can hold no more goes on a part at a time, and one whose reader stalls lets go of it all. Counts and histograms build no lines, and look at ids only where two units could
//! hold the same record.
//!
//! A node that is one of several asks all of them ([`Scatter`]); each answers from its own engine ([`Serving`]).
//!
//! Invariant: a record that was accepted before the request is in the answer once, also while it moves from the queue to
//! the store: the queue is looked at first, and a queue segment is passed over when a segment on the store names it as
//! its source.
//! Invariant: what could not be read is told of in the answer's [`Stats`]; an answer is never partial in silence.

mod answers;
mod block;
mod block_cache;
mod buffer_pool;
mod column_lines;
mod column_scan;
mod context;
mod count;
mod dispatch;
mod engine;
mod fields;
mod match_buffer;
mod metrics;
mod partial_result;
mod pool;
mod recent_ids;
mod record_stream;
mod request;
mod result_budget;
mod scan_memory;
mod scatter;
mod search;
mod snapshot;
mod stats;
mod tail;
mod tail_event;
mod tail_stream;
mod text_scan;
mod unit;

pub use answers::Answers;
pub use bucksaw_scan::Level;
pub use bucksaw_scan::{MEMORY_BYTES_MAX as AUTOMATA_BYTES_MAX, limit_memory as limit_automata};
pub use context::Context;
pub use count::{Bucket, Bucketing, Histogram};
pub use engine::{Config, Engine};
pub use fields::{FieldValues, Fields};
pub use match_buffer::{OwnedRecord, RecordRef, RecordRun};
pub use metrics::Metrics;
pub use pool::ScanPool;
pub use record_stream::{AnswerRecords, RecordSink, SinkClosed};
pub use request::{Cancel, Order, Request, RequestError};
#[doc(hidden)]
pub use scatter::decode_all_formats;
pub use scatter::{
    BatchSlice, GossipPeers, QueryPeer, QueryPeers, QueryServer, RepairHints, ReplyTimeouts, Scatter, ScatterContext,
    ScatterSearch, ScatterTail, re_replicated_stores,
};
pub use search::Search;
pub use stats::{MissingNode, MissingReason, NodeStats, QueryStats, TrashStats};
pub use tail::{Tail, TailBatch};
pub use tail_event::{TailEvent, TailRecords};
pub use tail_stream::TailStream;

#[cfg(test)]
mod tests;
