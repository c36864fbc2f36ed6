//! The environment simulated under one seed: a disk that can lose power, a clock that a test advances, and random numbers. Each
//! can be used by itself; a [`World`] combines them into hosts that run, crash and communicate under virtual time.
//!
//! # The disk
//!
//! A disk separates *live* bytes and names, which every reader sees, from *durable* ones, which were synced.
//!
//! ```text
//!                   one file                                  the names
//!   append,    ┌──────────────────────┐       create,    ┌─────────────────────┐
//!   truncate ─►│ live bytes           │─► rename, remove►│ live: path → file   │─► open, list
//!        │     └──────────────────────┘ read_at     │    └─────────────────────┘
//!        ▼                                          ▼
//!     pending changes in order                   pending changes in order
//!        │ sync of the file                         │ sync_dir of a directory that the change touches
//!        ▼                                          ▼
//!     durable bytes                              durable: path → file
//! ```
//!
//! [`Fs::kill`] keeps both for the next process. [`Fs::cut_power`] returns a new disk with the durable state and those pending
//! changes that [`PowerCutLoss`] keeps. The bytes and the name of a file become durable separately. Common file systems are
//! less strict: many make the name durable with the bytes. A store that is correct here is correct on all of them.
//!
//! - What was synced survives every power cut.
//! - For each path, the durable state is the one after some prefix of the changes that touched it. So a rename is atomic: the
//!   file has the old name or the new one, never both or neither.
//! - The same calls and the same seed give the same disk, byte for byte.
//!
//! Not simulated: directories and symbolic links are durable at once; hard links and permission bits do not exist. Callers wait for the disk in
//! [`crate::Tasks::spawn_blocking`], which has a delay.
//!
//! ```
//! use bucksaw_env::{Fs as _, sim};
//! use std::path::Path;
//!
//! let disk = sim::Fs::new();
//! let file = disk.create(Path::new("/log"))?;
//! file.append(&[b"kept"])?;
//! file.sync()?;
//! disk.sync_dir(Path::new("/"))?;
//! file.append(&[b", lost"])?;
//!
//! let after = disk.cut_power(sim::PowerCutLoss::All, 0);
//! assert_eq!(after.live_bytes("/log").as_deref(), Some(&b"kept"[..]));
//! assert_eq!(disk.live_bytes("/log").as_deref(), Some(&b"kept, lost"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The world
//!
//! A [`World`] runs the tasks of all hosts in one thread. Its seed decides which ready task runs next, how long each step takes
//! and which faults occur, so the same seed gives the same run ([`World::fingerprint`]). If no task is ready, the time jumps to
//! the next timer.
//!
//! A test can cause these faults:
//! - A [`Host`] is killed, loses power, restarts or pauses; its wall clock jumps, its disk is slow
//!   ([`Host::set_blocking_delay`]) or fails ([`Host::fs`]).
//! - [`NetworkConditions`] of the whole [`Network`] or of one direction between two hosts: delays, lost and duplicated
//!   datagrams, calls that break or stall at any point, also between the work and its reply.
//! - Links are cut or clogged, each direction by itself.
//!
//! A body arrives in order, and whole or with an error; its writer waits for its reader. Nothing of a dead process runs any
//! more, not even its cleanup, as far as disk, tasks and network are concerned.
//!
//! Not simulated: computing takes no time, unless it is counted in that of a sync ([`Fs::set_sync_duration`]), and blocking work
//! happens at one moment. Wall clocks jump but do not drift. Hosts
//! keep their addresses. Bytes are not changed in transit. Connections share no bandwidth and no memory.

mod clock;
mod disk;
mod entropy;
mod fs;
mod handle;
mod inline_tasks;
mod inode;
mod names;
mod sync_duration;
mod world;

pub use clock::Clock;
pub use entropy::Entropy;
pub use fs::Fs;
pub use inline_tasks::InlineTasks;
pub use sync_duration::SyncDuration;
pub use world::{Delay, Host, Network, NetworkConditions, Observer, World};

/// What a power cut does to unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCutLoss {
    /// All are lost.
    All,
    /// None are lost, except those that a failed sync dropped.
    None,
    /// The seed decides for each change. A write is kept, lost, or kept in part; its missing bytes before the end of the file
    /// read as zeros or as garbage. A name is in the state before or after any of its changes.
    Torn,
}
