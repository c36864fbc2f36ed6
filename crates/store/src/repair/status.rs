//! The status of repair, and why it is blocked.

use bucksaw_record::{Id, Millis};

/// The status of repair. Bytes are estimates of the size of segment files, for records of equal size that are evenly
/// distributed over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairStatus {
    /// When the running pass began, by the wall clock.
    pub began: Option<Millis>,
    /// Its position: a pass goes from the newest record to the oldest.
    pub position: Option<Millis>,
    /// Bytes that remain in the pass.
    pub remaining_bytes: u64,
    /// Rate of the last minute or so; 0 without progress.
    pub bytes_per_second: u64,
    /// When the last completed pass began: stores that were lost before are re-replicated.
    pub last_pass_started_at: Option<Millis>,
    /// Under-replicated records that this store is responsible for, as last seen.
    pub under_replicated_records: u64,
    /// Their bytes.
    pub under_replicated_bytes: u64,
    /// Ranges that are compared again, because a store did not reply or accepted nothing.
    pub deferred_ranges: usize,
    /// Why repair is blocked, if it is.
    pub blocked_by: Option<RepairBlocker>,
    /// Stores that are down and may return.
    pub awaited_stores: Vec<Id>,
    /// Lost stores.
    pub lost_stores: Vec<Id>,
    /// Lost stores that are not re-replicated.
    pub unrepaired_stores: Vec<Id>,
    /// Upper bound of the under-replicated bytes: the data of awaited and unrepaired stores, and of forgotten or emptied ones
    /// that the running pass restores.
    pub lost_bytes_max: u64,
    /// Replicas of records restored since the start.
    pub restored_records: u64,
    /// Bytes of segment files sent for that.
    pub restored_bytes: u64,
}

/// Why repair is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum RepairBlocker {
    /// Fewer stores accept replicas than the replication factor.
    TooFewStores,
    /// No other store has enough disk space.
    NoSpace,
    /// A live store does not reply.
    Unreachable(Id),
    /// A store is down and may return: comparisons pause until it has returned or is lost.
    Awaited(Id),
    /// Other stores do not accept replicas; the log has the errors.
    CopyFailed,
    /// Records that only this store has cannot be read; the log has the errors.
    Unreadable,
}

impl RepairBlocker {
    /// The name in metrics and status.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The store concerned.
    pub fn store(self) -> Option<Id> {
        match self {
            Self::Unreachable(store) | Self::Awaited(store) => Some(store),
            _ => None,
        }
    }
}

impl RepairStatus {
    /// Estimated seconds until the end of the running pass; `None` without one, or without progress.
    pub fn remaining_seconds(&self) -> Option<u64> {
        self.began?;
        self.remaining_bytes.checked_div(self.bytes_per_second)
    }
}
