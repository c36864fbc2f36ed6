//! The doors of machines that do not exist: a disk that can lose power, a clock that is wound by hand, and randomness that
//! a seed decides; each can be used by itself. A [`World`] makes nodes of them, which live, die and talk to each other under
//! virtual time.
//!
//! # The disk
//!
//! It knows what a real one does not tell: which bytes and which names would still be there if the power went
//! now. What was written is *live* and everyone reads it; it is *durable* only after a sync.
//!
//! ```text
//!                   one file                                  the names
//!   append,    ┌──────────────────────┐       create,    ┌─────────────────────┐
//!   truncate ─►│ live bytes           │─► rename, remove►│ live: path → file   │─► open, list
//!        │     └──────────────────────┘ read_at     │    └─────────────────────┘
//!        ▼                                          ▼
//!     pending: the changes since, in order       pending: the changes since, in order
//!        │ sync of the file                         │ sync_dir of a directory that the change touches
//!        ▼                                          ▼
//!     durable bytes                              durable: path → file
//! ```
//!
//! [`Fs::kill`] leaves both halves to the next process. [`Fs::cut_power`] takes the durable half, adds what [`Loss`] lets through of the pending changes, and gives that as
//! a new disk. A file is found again only if its name is; its bytes are its own affair. This is harder than what
//! common file systems do (theirs often make the name durable with the bytes), because a store that is right here is
//! right on all of them.
//!
//! Invariants:
//! - What was synced is found after every power cut, whatever is lost.
//! - For each path, the durable state is the one after some prefix of the changes that touched it. So a rename is
//!   atomic: the file has the old name or the new one, never both and never none.
//! - The same calls and the same seed give the same disk, byte for byte.
//!
//! What it leaves out: directories are durable at once, there are no links, no permissions, and no delays; these belong to
//! [`crate::Tasks::block`], by which its callers wait for a disk.
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
//! let found = disk.cut_power(sim::PowerCutLoss::All, 0);
//! assert_eq!(found.live_bytes("/log").as_deref(), Some(&b"kept"[..]));
//! assert_eq!(disk.live_bytes("/log").as_deref(), Some(&b"kept, lost"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The world
//!
//! A [`World`] runs the tasks of all its nodes in one thread. One seed decides which of those that are ready runs next, how
//! long everything takes, and what goes wrong, so that the same seed gives the same run ([`World::fingerprint`]). When no
//! task is ready the time jumps to the next timer.
//!
//! What can go wrong, as a test sets it:
//! - a [`Node`] is killed, loses power, starts again, stops and goes on, its wall clock jumps, its disk is slow
//!   ([`Node::set_work`]) or fails ([`Node::fs`]);
//! - by the [`Weather`], the whole [`Network`]'s or one direction's between two nodes: delays, lost and doubled datagrams,
//!   calls that break or stall at any moment, also when they are done and not yet answered;
//! - ways are cut, one direction by itself, or clogged.
//!
//! Invariants:
//! - A body arrives in order, and whole or not to its end. Whoever writes it waits for who reads.
//! - What dies is gone at once: nothing of it runs any more, not to clean up either, as far as disk, tasks and network go.
//!
//! What it leaves out: computing takes no time, and work away from the tasks is done in one moment of it; wall clocks jump,
//! but do not drift; nodes do not change their addresses; nothing is changed on the way but a body's division into pieces;
//! what connections share (bandwidth, memory) has no limit but each one's own. Who draws the faults over time is the
//! simulator above.

mod clock;
mod disk;
mod entropy;
mod fs;
mod handle;
mod inline_tasks;
mod inode;
mod names;
mod world;

pub use clock::Clock;
pub use entropy::Entropy;
pub use fs::Fs;
pub use inline_tasks::{InlineTasks, NoNetwork};
pub use world::{Delay, Host, Network, NetworkConditions, Observer, World};

/// What a power cut does to the changes that were not synced. Those that were synced always stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCutLoss {
    /// All of them are lost: the least that a disk may keep.
    All,
    /// None of them is lost, as when only the process is killed. What a failed sync dropped is lost even so.
    None,
    /// The seed decides for each by itself. A write is found whole, not at all, or in part; what is missing below the
    /// end of the file reads as zeros, or sometimes as garbage. A name is found as it was before or after any of its
    /// changes.
    Torn,
}
