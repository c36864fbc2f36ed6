//! Queries over a whole cluster: the answer is the same whichever node is queried.
//!
//! ```text
//!   Scatter ── which replicated records? ──► stores: a sum of ids for each group of stores and interval
//!   Scatter ── request to all nodes, this one included ──► QueryServer on each: snapshot, head, matches
//!           ◄── message streams, merged by id, equal ids dropped; the limit ends the work of all nodes ──
//! ```
//! `query/search` returns records in order; fields and context are computed from them. `query/count` returns bitmaps of
//! ids, `query/tail` new records, `query/streams` streams with their numbers of records. A single node uses its
//! [`Engine`](crate::Engine) directly.
//!
//! An answer omits nodes that do not reply in time ([`ReplyTimeouts`]). [`QueryStats`](crate::QueryStats) gives the
//! reason and whether records may be missing. Records that several stores hold are searched by one of them
//! ([`division`]), and by another if that one fails. Rejected: hedged requests, which would search records twice to save time only
//! when a node is slow.
//!
//! Invariant: a complete answer contains each record that was accepted before the request exactly once, even if the
//! record moves from a queue to a store meanwhile. Queues list committed segments for a fixed time; a node counts as
//! answered only if it took its snapshot well within that time.
//! Invariant: a truncated reply has no end message, so it never counts as complete.

mod batch;
mod cells;
mod count;
mod coverage;
mod division;
mod fuzz;
mod merge;
mod message;
mod peers;
mod pending_division;
mod re_replicated;
mod recent_divisions;
mod replica_states;
mod reply;
mod request;
mod requester;
mod search;
mod sent_streams;
mod server;
mod streams;
mod tail;
mod takeover;

pub(crate) use batch::BatchSlice;
#[doc(hidden)]
pub use fuzz::decode_all_formats;
pub use peers::{GossipPeers, QueryPeer, QueryPeers};
pub use re_replicated::re_replicated_stores;
pub use reply::ReplyTimeouts;
pub use requester::{RepairHints, Scatter};
pub(crate) use search::ScatterSearch;
pub use server::QueryServer;
pub(crate) use tail::ScatterTail;

#[cfg(test)]
mod tests;
