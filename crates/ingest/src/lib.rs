//! The queue: accepts records into append-only files and keeps them until stores have them.
//!
//! ```text
//!   sources ── append ──► slot ──► <id>.active ── size or age ──► <id>.pending ── leased by a store ──►
//!                                                                  <id>.committed ── grace period ──► removed
//! ```
//! | state on disk | meaning | next |
//! | --- | --- | --- |
//! | `active` | an append slot writes to it, or its seal could not be written | `pending` when it is full or old, at shutdown, or when a client waits for stores and one asks |
//! | `pending` | closed, ends in its seal, waits for a store; leases are in memory only | `committed` |
//! | `committed` | stores have its records; readable for a grace period | removed |
//! | `damaged` | quarantined: its intact frames were fetched, or none can be read; kept for inspection | |
//!
//! An *append slot* owns one active segment. Connections share a few slots, frame by frame: a busy connection has a slot almost
//! to itself, thousands of idle ones share one file, and sharing costs one short lock per chunk.
//!
//! A record is acknowledged when it has its [`Durability`]: `fast` when the kernel has the bytes, `durable` after a group
//! commit, `bulk` when stores have committed it.
//!
//! All functions are synchronous. The owner of the threads calls [`Queue::commit_group`], [`Queue::rotate_files`] and [`Queue::tick`].
//!
//! Invariants:
//! - A record is readable through [`Queue::readable_segments`] from the return of its append until a store shows it.
//! - Nothing is acknowledged from a file whose last sync failed.
//! - No lock is held over disk I/O, except the writer of an append slot (`append_slot`) and the lock of the key log
//!   (`keys::remembered`). Only threads that write to the same file wait for these.

mod append;
mod append_slot;
mod boot;
mod commit;
mod config;
mod empty_segment_file;
mod halt;
mod halt_reason;
mod halt_state;
mod index_memory;
mod keys;
pub mod lease;
mod metrics;
mod move_file;
pub mod offline_repair;
mod quarantine;
mod queue;
mod queue_file;
mod recent_frames;
mod recover;
mod removed_files;
mod reserve;
mod rotation;
mod scoped_ids;
mod segment;
mod segment_file;
mod stall;
mod upkeep;

pub use append::{Durability, FrameRecords, IngestError, Source};
pub use config::Config;
pub use halt_reason::HaltReason;
pub use keys::{IdempotentBatch, KeyFileReport};
pub use metrics::Metrics;
pub use queue::{FetchThreshold, Queue, QueueBacklog};
pub use queue_file::DamagedQueueFile;
pub use recent_frames::RecentFrame;
pub use recover::Recovery;
pub use scoped_ids::ScopedIds;
pub use segment::{QueueSegment, SegmentState, SegmentView};

#[cfg(test)]
mod slow_disk_tests;
#[cfg(test)]
mod tests;
