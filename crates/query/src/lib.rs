//! Answers: time-bounded grep over what the queue and the shelf hold.
//!
//! ```text
//!   request ── snapshot: queue first, then shelf ──► units (queue segments, blocks), those that cannot match left out
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
//! the shelf: the queue is looked at first, and a queue segment is passed over when a segment on the shelf names it as
//! its source.
//! Invariant: what could not be read is told of in the answer's [`Stats`]; an answer is never partial in silence.

mod block;
mod budget;
mod cluster;
mod columned;
mod context;
mod count;
mod dispatch;
mod engine;
mod fields;
mod hits;
mod lines;
mod metrics;
mod opened;
mod part;
mod pool;
mod request;
mod room;
mod search;
mod spares;
mod stats;
mod tail;
mod unit;

pub use bucksaw_scan::Level;
pub use bucksaw_scan::{MEMORY_BYTES_MAX as AUTOMATA_BYTES_MAX, limit_memory as limit_automata};
#[doc(hidden)]
pub use cluster::read_anything;
pub use cluster::{
    Answer, Follow, Followed, GatheredContext, Gossiped, Patience, Peer, Peers, Repair, Scatter, Serving, Stretch,
    made_good,
};
pub use context::Context;
pub use count::{Bucket, Division, Histogram};
pub use engine::{Config, Engine};
pub use fields::{FieldValues, Fields};
pub use hits::{Record, RecordRef, Run};
pub use metrics::Metrics;
pub use pool::Pool;
pub use request::{Cancel, Order, Request, RequestError};
pub use search::Search;
pub use stats::{Missing, Nodes, Stats, Trashed, Why};
pub use tail::{Tail, Tailed};

#[cfg(test)]
mod tests;
