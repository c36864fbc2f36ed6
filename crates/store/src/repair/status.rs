//! How repair is getting on, and what it is waiting for.

use bucksaw_record::{Id, Millis};

/// How repair is getting on, for people. Bytes are those of segment files, and estimates: records are of different sizes,
/// and segments hold more of one time than of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairStatus {
    /// When the pass that is under way began, by the wall clock.
    pub began: Option<Millis>,
    /// Where it has come to: it goes from the newest record to the oldest.
    pub position: Option<Millis>,
    /// How much of this store it has not come to yet.
    pub remaining_bytes: u64,
    /// How much it got through in a second, over the last minute or so; 0 when it gets nowhere.
    pub bytes_per_second: u64,
    /// When the last pass that came to its end began: stores that went down before that were made good.
    pub last_pass_started_at: Option<Millis>,
    /// Records that this store is responsible for and that too few stores hold, as last seen.
    pub under_replicated_records: u64,
    /// Their bytes.
    pub under_replicated_bytes: u64,
    /// Windows that are looked at again, because a store could not be asked or took nothing.
    pub deferred_ranges: usize,
    /// What stops it.
    pub blocked_by: Option<RepairBlocker>,
    /// Stores that are gone and may come back: they are lost when that lasts.
    pub awaited_stores: Vec<Id>,
    /// Stores that are taken for lost.
    pub lost_stores: Vec<Id>,
    /// Those of them that no pass has made good.
    pub unrepaired_stores: Vec<Id>,
    /// What stores had that are awaited, open, or were forgotten or emptied and the pass under way is about: at most so much
    /// has fewer copies than it should.
    pub lost_bytes_max: u64,
    /// Copies of records made since the start.
    pub restored_records: u64,
    /// Bytes of segment files sent for that.
    pub restored_bytes: u64,
}

/// What stops repair from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairBlocker {
    /// There are not as many stores that take copies as are wanted.
    TooFewStores,
    /// No other store has room.
    NoSpace,
    /// A store is there, and cannot be asked what it holds.
    Unreachable(Id),
    /// A store is gone and may come back: nothing is compared until it has, or is lost.
    Awaited(Id),
    /// Other stores do not take copies: network or disk. The log says more.
    CopyFailed,
    /// Records that only this store has cannot be read. The log says more.
    Unreadable,
}

impl RepairBlocker {
    /// The names of all.
    pub const NAMES: [&str; 6] = ["too_few_stores", "no_space", "unreachable", "awaited", "copy_failed", "unreadable"];

    /// Its name in metrics and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TooFewStores => "too_few_stores",
            Self::NoSpace => "no_space",
            Self::Unreachable(_) => "unreachable",
            Self::Awaited(_) => "awaited",
            Self::CopyFailed => "copy_failed",
            Self::Unreadable => "unreadable",
        }
    }

    /// The store that it is about.
    #[must_use]
    pub fn store(self) -> Option<Id> {
        match self {
            Self::Unreachable(store) | Self::Awaited(store) => Some(store),
            _ => None,
        }
    }
}

impl RepairStatus {
    /// Seconds that the pass under way still takes at its pace; `None` when it gets nowhere, or there is none.
    #[must_use]
    pub fn remaining_seconds(&self) -> Option<u64> {
        self.began?;
        self.remaining_bytes.checked_div(self.bytes_per_second)
    }
}
