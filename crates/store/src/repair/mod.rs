//! Repair (anti-entropy): finds records that are on fewer stores than the replication factor, and replicates them.
//!
//! ```text
//!   each store, range by range, newest first:
//!     scan own rows ──► ids ──► store/held-ids to every other store ──► holders of each record ──► under-replicated, and mine?
//!                                                                                                    │
//!       other stores, drawn as for new segments ◄── store/put ◄── a segment of these records ◄───────┘
//! ```
//! There is no list of what should be where. Each store compares its own records with all other stores, so repair finds
//! every under-replicated record that at least one store holds, whatever the cause. One holder of a record is responsible for
//! it by a hash (`responsibility`), so normally one store acts and the work is even. If two act, the extra replica is
//! harmless, because answers drop duplicates. A store that has begun with a record finishes it.
//!
//! - A *range* is a span of time with at most about a quarter of a million records or 32 MiB of text on this store.
//! - A *pass* covers all ranges. It runs a minute or two after a start and then once a day; at once when a store is lost,
//!   returns with much less data, or joins or accepts replicas again while records are under-replicated. Daily passes also
//!   verify the checksums of all own blocks. A damaged block is not held, and its records are replicated from other stores.
//! - *Hints* are ranges in which a missing replica was seen ([`Repair::hint`]); they precede the pass.
//! - An *awaited* store is down and may return: comparisons pause. After `lost_after` the store is *lost* and holds nothing. A
//!   store whose disk was replaced is lost at once.
//! - *Fresh* records arrived within `fresh_age_max` and may be in transit to other stores. Those that are under-replicated are
//!   compared again later.
//! - Records in the last tenth of any store's retention age, at most an hour, are ignored.
//! - The rate is limited to `bytes_per_second` over each range and the pause after it, and repair is throttled by queries.
//!
//! A pass ends when all ranges were compared with all stores that are not lost, and replicated as far as possible. Failed ranges
//! are deferred and repeated. [`RepairStatus::last_pass_started_at`] then states its start: stores that were lost before are
//! re-replicated if they are fewer than the replication factor. If as many stores were lost at once, some records may have no
//! replica left, and no pass proves otherwise until the stores return or are forgotten.
//! [`Repair::re_replicated_fingerprints`] lists the lost stores that this store can do without. The lists of all stores
//! together decide whether answers are complete.
//!
//! Quarantined files and damaged blocks of this store are re-replicated in the same way: see `proof`.
//!
//! Repair does not move data for balance, and does not remove extra replicas.

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
pub use held_ids::HELD_IDS;
pub use id_set::IdSet;
pub use pass_status::PASS_STATUS;
pub use runner::Repair;
pub use status::{RepairBlocker, RepairStatus};
pub(crate) use time_range::TimeRange;

#[cfg(test)]
pub(crate) use local_scan::{LocalIds, LocalScan, RetentionBounds};
