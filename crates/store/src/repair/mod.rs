//! Repair: records that too few stores hold, because one of them or its disk was lost, are copied to others.
//!
//! ```text
//!   walker of each store, window by window, the newest first:
//!     own rows ──► ids ──► every other store: which of these do you hold? ──► who holds what ──► too few? am I the one?
//!                                                                                                  │
//!       other stores, drawn as for new segments ◄── store/put ◄── a segment of just these ◄────────┘
//! ```
//! There is no list of what should be where. Each store walks over what it holds itself and asks the others, so whatever is
//! held by one at least is found to be missing copies, however that came about. Of those who hold a record one is
//! responsible by a hash (`decide`), so normally one acts, and the work is spread over all; where two do, a copy is made
//! that was not needed, which does no harm, because answers drop equal ids. Who began with a record goes on until it is done.
//!
//! - A *window* is a span of time with no more than a quarter of a million records or 32 MiB of text on this store, about.
//! - A *pass* goes over all of them: a minute or two after a start, then once a day; at once when a store is lost, came back
//!   with much less than it had, or joined, or takes copies again, while copies were missing. The daily ones also hold all
//!   own blocks against their checksums; a damaged block is not held, and is restored from another store as another copy.
//! - *Hints* are windows in which somebody saw a copy missing ([`Repair::hint`]); they go before a pass.
//! - *Gone and lost*: while a store is down and may come back, nothing is done; after `lost_after` it holds nothing.
//!   A store whose disk was replaced does not come back: it is lost at once.
//! - *Fresh* records, which came to the store less than `margin` ago, may be on their way to others still: those that
//!   are missing copies are looked at again when they no longer are fresh, and only they.
//! - What retention lets go of on any store is left to it, from a tenth of its time, at most an hour, before its end.
//! - What is asked and sent is bounded: `bytes_per_second` over each window and the rest after it, and it steps aside for
//!   queries as gathering does.
//!
//! A pass ends when all windows were looked at with the answers of all stores that are not lost, and everything that could
//! be copied was. Windows that fail are put off and looked at again. When it ends, [`Status::walked`] tells since when: who
//! went down before that was made good, if it was fewer stores than there are copies. Where as many were lost at once, some
//! records may be nowhere, and no pass says otherwise until they come back or are forgotten. [`Repair::made_good`] tells which
//! of those that are lost this store can do without, if nothing was missing copies; what all stores say of that together
//! decides whether answers can.
//!
//! Files of this store that were set aside as damaged, and damaged blocks of its segments, are made good in the same way: see
//! `proof.rs`.
//!
//! What it does not do: nothing at rest is moved for balance, and copies that are too many stay.

mod config;
pub(crate) mod damage_file;
pub(crate) mod damage_state;
mod extents;
mod extract;
mod held_ids;
mod id_set;
mod local_scan;
mod pass_rate;
mod pass_status;
mod pass_status_call;
pub(crate) mod proof;
mod proof_requests;
mod range_queue;
mod responsibility;
mod runner;
mod state;
mod status;
mod store_monitor;
mod time_range;

pub use config::Config;
pub use held_ids::{HELD_IDS, HeldIdsServer};
pub use id_set::IdSet;
pub use pass_status::PASS_STATUS;
pub use runner::Repair;
pub use status::{RepairBlocker, RepairStatus};
pub(crate) use time_range::TimeRange;

#[cfg(test)]
pub(crate) use local_scan::{LocalIds, LocalScan, RetentionBounds};
