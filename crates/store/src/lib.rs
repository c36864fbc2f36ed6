//! The store: takes segments from the queue, merges them by id, keeps them packed, and lets them go in time.
//!
//! ```text
//!   queue ── reserve ──► gather: merge by id, encode blocks ──► <id>.tmp ── sync ──► <span>-<id>.seg ──► commit
//!                                                  compact: merge small and overlapping neighbours
//!                                                  retain:  too old, or too many bytes ──► trash ──► removed
//! ```
//! | name | what it means | what may follow |
//! | --- | --- | --- |
//! | `*.tmp` | being written; of no meaning after a restart | renamed, or removed |
//! | `*.seg` | sealed, synced, immutable | merged into others and removed; `trash/` by retention; `damaged` |
//! | `*.damaged` | its footer cannot be read; kept for a person to look at, told of in answers for its span | nothing |
//! | `*.proof` | what other stores told about a damaged file, or about damaged blocks of a segment | removed when the file has gone |
//! | `trash/*` | past its retention | removed after a while, or earlier, the oldest first, when the disk is nearly full |
//!
//! In a cluster it takes from the queues of all nodes, and has what it makes kept by other stores, too, before the queues let
//! go ([`Puller`]); what other stores make it keeps likewise ([`Receive`]).
//!
//! What too few stores hold, because one was lost, is copied again ([`repair`]).
//!
//! Gathering and merging step aside for queries, block by block (`aside`): those who answer say so by the store's
//! [`Foreground`].
//!
//! Everything here is a plain function or waits through the environment; who owns threads calls [`store::gather`] or
//! [`Puller::bring`], [`store::compact`] and [`store::retain`] on them.
//!
//! Invariant: a queue is told to commit only when what was made of its segments is durable, name and all, and shown, on as
//! many stores as keep copies.
//! Invariant: what a merge read is removed only when all that the merge made is durable and shown.
//! Invariant: nothing damaged is ever removed, but what is past its retention and whose damaged records other stores keep.

mod backlog;
mod clock_guard;
mod compact;
mod config;
mod disk_space;
mod error;
mod fetch;
mod foreground;
mod gather;
mod gather_batch_size;
mod index_memory;
mod lock;
mod merge;
mod metrics;
mod name;
pub mod offline_repair;
mod open;
mod peers;
mod plan;
mod pull;
mod receive;
pub mod repair;
mod replicate;
mod replication_context;
mod retain;
mod segment_store;
mod select;
mod store;
mod stored_segment;
mod throttle;
mod trash;
mod trashed_segment;
mod trusted_time;
mod unit;

pub use clock_guard::Suspension;
pub use config::Config;
pub use error::StoreError;
pub use foreground::{Foreground, ForegroundGuard};
pub use index_memory::StoreIndexMemory;
pub use metrics::Metrics;
pub use peers::{NoPeers, Peer, PeerStore, PeerTimeouts, Peers};
pub use pull::{DueQueue, Puller};
pub use receive::{PUT, SegmentReceiver};
pub use replication_context::ReplicationContext;
pub use segment_store::SegmentStore;
pub use store::{BlockSelector, BlockRef, BlockSource, Selection, Store, StoreBatch, StoreStatus, StoredBatch};
pub use stored_segment::{DamagedSegment, StoredSegment};
pub use trashed_segment::TrashedSegment;

#[cfg(test)]
mod tests;
