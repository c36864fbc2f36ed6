//! The queue: takes records as fast as the disk does, keeps them in append-only files, and hands the files to the store.
//!
//! ```text
//!   sources ── append ──► lane ──► <id>.active ── size or age ──► <id>.pending ── reserved by the store ──►
//!                                                                  <id>.committed ── grace ──► removed
//! ```
//! | state on disk | what it means | what may follow |
//! | --- | --- | --- |
//! | `active` | a lane appends to it, or its seal could not be written | `pending` when it is full or old, when a client wants it stored and a store asks, and at shutdown |
//! | `pending` | closed, and ends in its seal; waits for a store (a reservation is kept in memory only and lapses with the process) | `committed` |
//! | `committed` | its records are durable in the store; still readable for a grace | removed |
//! | `damaged` | something in it was broken; its whole frames went their way; kept for a person to look at | nothing |
//!
//! A *lane* owns one active segment. There are a few lanes and not one per connection: a busy connection has a lane
//! nearly to itself, and thousands of idle ones share one file. What is muxed is whole frames, so sharing costs a short
//! lock per chunk and nothing per record.
//!
//! Three promises: `fast` is kept when the bytes are with the kernel, `durable` after a group commit, `bulk` when the
//! store has committed. See [`Durability`].
//!
//! Everything here is a plain function; who owns threads calls [`Queue::commit_group`] and [`Queue::tick`] on them.
//!
//! Invariant: a record is readable from [`Queue::segments`] from the moment that `append` returned, until the store that
//! took it shows it.
//! Invariant: nothing is acknowledged from a file that failed to sync after the last success.

mod append;
mod append_slot;
mod boot;
mod class;
mod commit;
mod config;
mod damaged_file;
mod halt;
mod halt_reason;
mod halt_state;
mod index_memory;
mod keys;
pub mod lease;
pub mod load_shedder;
mod lock;
mod metrics;
mod move_file;
pub mod offline_repair;
mod quarantine;
mod queue;
mod recover;
mod reserve;
mod segment;
mod segment_file;
mod stall;
mod stream_bytes;
mod upkeep;

pub use append::{Durability, FrameRecords, IngestError, Source};
pub use config::Config;
pub use damaged_file::DamagedQueueFile;
pub use halt_reason::HaltReason;
pub use keys::{IdempotentBatch, KeyFileReport};
pub use metrics::{Metrics, SourceLabels};
pub use queue::{FetchThreshold, Queue, QueueBacklog};
pub use recover::Recovery;
pub use segment::{QueueSegment, SegmentState, SegmentView};

#[cfg(test)]
mod slow_disk_tests;
#[cfg(test)]
mod tests;
