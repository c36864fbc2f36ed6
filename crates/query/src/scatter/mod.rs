//! Questions over a whole cluster: whichever node is asked, the answer is that of all.
//!
//! ```text
//!   Scatter ── asks all nodes at once, this one among them ──► Serving on each: snapshot, head, then what it finds
//!           ◄── streams of messages, merged by id, equal ids dropped; stops at the limit, which ends the others' work ──
//! ```
//! Records come from `query/search`, in order; fields and context are made of them here. Counts come from `query/count` as
//! bitmaps of ids, new records from `query/tail`. A node that is alone does not ask itself in this way, but its
//! [`Engine`](crate::Engine) directly ([`Scatter::is_alone`]).
//!
//! Nodes that do not answer in time ([`Patience`]) are left out, and told of: in [`Stats::nodes`](crate::Stats), with why,
//! and whether records may be missing for it. Asking a second node for what a slow one has (hedging) would be of no use:
//! no two nodes hold the same records, and each is asked anyway.
//!
//! Invariant: a record that was accepted before the question is in a complete answer once, also while it moves from a queue
//! to a store elsewhere: a node counts as having answered only when it took its snapshot well within the time for which
//! queues show what they have handed over.
//! Invariant: an answer that was cut off is never taken for whole: it has no end message.

mod batch;
mod cells;
mod context;
mod count;
mod coverage;
mod fields;
mod fuzz;
#[cfg(test)]
mod golden;
mod merge;
mod message;
mod peers;
mod re_replicated;
mod reply;
mod request;
mod requester;
mod search;
mod server;
mod tail;

pub use batch::BatchSlice;
pub use context::ScatterContext;
#[doc(hidden)]
pub use fuzz::decode_all_formats;
pub use peers::{GossipPeers, QueryPeer, QueryPeers};
pub use re_replicated::re_replicated_stores;
pub use reply::ReplyTimeouts;
pub use requester::{RepairHints, Scatter};
pub use search::ScatterSearch;
pub use server::QueryServer;
pub use tail::ScatterTail;

#[cfg(test)]
mod tests;
