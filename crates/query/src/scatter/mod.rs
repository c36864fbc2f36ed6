//! Queries over a whole cluster: the answer is the same whichever node is queried.
//!
//! ```text
//!   Scatter ── request to all nodes, this one included ──► QueryServer on each: snapshot, head, matches
//!           ◄── message streams, merged by id, equal ids dropped; the limit ends the work of all nodes ──
//! ```
//! `query/search` returns records in order; fields and context are computed from them. `query/count` returns bitmaps of
//! ids, `query/tail` new records, `query/streams` streams with their numbers of records. A single node uses its
//! [`Engine`](crate::Engine) directly.
//!
//! Nodes that do not answer in time ([`ReplyTimeouts`]) are missing from the answer, and [`QueryStats`](crate::QueryStats)
//! gives the reason and whether records may be missing. Hedged requests would not help: no two nodes hold the same records,
//! and all are queried anyway.
//!
//! Invariant: a complete answer contains a record that was accepted before the request once, also while it moves from a
//! queue to a store: a node counts as answered only if it took its snapshot well within the time for which queues show
//! committed segments.
//! Invariant: a truncated reply is never taken for complete: it has no end message.

mod batch;
mod cells;
mod count;
mod coverage;
mod fuzz;
mod merge;
mod message;
mod peers;
mod re_replicated;
mod reply;
mod request;
mod requester;
mod search;
mod sent_streams;
mod server;
mod streams;
mod tail;

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
