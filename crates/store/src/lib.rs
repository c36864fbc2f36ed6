//! The store tier: stores the segments of queues as immutable files of blocks, merges them, and removes them after their
//! retention.
//!
//! ```text
//!   queue ── fetch ──► gather: merge by id, encode blocks ──► <id>.tmp ── sync ──► <span>-<id>.seg ──► ack
//!                                                  compact: merge small and overlapping neighbours
//!                                                  retain:  too old, or too many bytes ──► trash ──► removed
//! ```
//! | name | meaning | what may follow |
//! | --- | --- | --- |
//! | `*.tmp` | a draft; removed at the next start | renamed, or removed |
//! | `*.seg` | sealed, synced, immutable | merged into others and removed; `trash/` by retention; `damaged` |
//! | `*.damaged` | quarantined: the footer cannot be read; answers over its time report it | nothing |
//! | `*.proof` | a damage file, beside a damaged file or a segment with damaged blocks | removed after its file |
//! | `*.seg` without its key | encrypted, and the key is not named: left as it is | opened once the key is named |
//! | `trash/*` | past its retention | removed after a while; the oldest earlier when the disk is nearly full |
//!
//! [`Store`] is the interface for the crates above, and [`SegmentStore`] implements it. In a cluster, [`Puller`] fetches from
//! the queues of all nodes and replicates each segment before it acknowledges, [`Replication`] accepts the replicas of other
//! stores, and [`repair`] restores replicas that were lost.
//!
//! [`erasure`] removes records that must be forgotten, from answers at once and from files soon.
//!
//! Gathering and merging are throttled, block by block, while queries run ([`Foreground`]).
//!
//! The crate starts no threads: its functions block or wait through the environment, and the caller runs them.
//!
//! Invariant: a queue commits a segment only after its records are durable and searchable, under their final file names, on
//! as many stores as the replication factor.
//! Invariant: the inputs of a merge are removed only after all its outputs are durable and searchable.
//! Invariant: a damaged file is never removed, unless it is past its retention and its damaged records are re-replicated.

#![allow(clippy::disallowed_types, reason = "only this crate and the assembly of a node name the segment store")]

mod backlog;
mod batch_sink;
mod clock_guard;
mod compact;
mod config;
mod disk_space;
mod encryption_status;
pub mod erasure;
mod error;
mod fetch;
mod foreground;
mod gather;
mod gather_batch_size;
mod index_memory;
mod keyless;
mod merge;
mod metrics;
mod name;
pub mod offline_repair;
mod open;
mod peers;
mod plan;
mod pull;
mod receive;
mod record_range;
pub mod repair;
mod replica_token;
mod replicate;
mod replication;
mod retain;
mod search_share;
mod segment_list;
mod segment_store;
mod select;
mod share_filter;
mod store;
mod store_context;
mod stored_segment;
mod stream_retention;
mod temp_file;
mod throttle;
mod trash;
mod trusted_time;
mod unit;

pub use batch_sink::{BatchSink, SinkStatus};
pub use clock_guard::Suspension;
pub use config::Config;
pub use encryption_status::{EncryptionStatus, KeyUsage, KeylessSegment};
pub use error::StoreError;
pub use fetch::QueueLocation;
pub use foreground::{Foreground, ForegroundGuard};
pub use metrics::Metrics;
pub use peers::{NoPeers, Peer, PeerMember, PeerState, PeerStore, PeerTimeouts, Peers};
pub use pull::Puller;
pub use receive::PUT;
pub use record_range::{RangeColumns, RangeError, RangeRead, RangeStream, RecordRange};
pub use replication::Replication;
pub use search_share::{ReplicaRun, ReplicaState, SearchShare, ShareStatus};
pub use segment_list::SegmentList;
pub use segment_store::SegmentStore;
pub use store::{
    BlockRef, BlockSelector, BlockSource, DatabaseStatus, Selection, Store, StoreBatch, StoreStatus, StoredBatch,
    TrashedSegment,
};
pub use store_context::StoreContext;
pub use stored_segment::{DamagedSegment, StoredSegment};
pub use stream_retention::{LabelRetention, StreamRetention};

#[cfg(test)]
mod tests;
