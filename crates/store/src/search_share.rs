//! Which replicated records a store searches for a request, and which it leaves to another store that holds the same.
//!
//! ```text
//!   requester ── replica state? ──► all stores: a sum of ids for each replica group and interval of time
//!             ── share, search ───► all stores: "skip these runs of intervals, another store searches them"
//! ```
//! A store skips a run only if the sum of its own records there is still the one that the other store had. That other store
//! says whether it has lost records since ([`ShareStatus::Refused`]). So each record that one store skips is in the snapshot of
//! another, whatever happens between the two calls; a record that both search is found twice, and answers drop one of them. Therefore
//! states may be used again for later searches, until a store says that they are outdated.
//!
//! Segments with damaged blocks are never skipped and not part of a sum. Stores with other rules of retention have other sums: one
//! would hide what another one shows.

use std::collections::BTreeMap;

use bucksaw_segment::stored::{IdSum, Interval, ReplicaGroup};

/// The replicated records of a store in a range of time, for a comparison with other stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// Equal to an earlier one if the sums are the same and the store has lost no record in between.
    pub token: String,
    /// Each sum is that of 2^`interval_bits` intervals.
    pub interval_bits: u32,
    /// The sum of the ids of each group and, by the first of them, these intervals.
    pub sums: BTreeMap<(ReplicaGroup, Interval), IdSum>,
    /// Bytes of text in them, approximately.
    pub text_bytes: u64,
    /// The blocks of their records.
    pub blocks: u64,
    /// The number of intervals, summed over these blocks.
    pub block_intervals: u64,
}

impl ReplicaState {
    /// Maximum sums. A longer range of time has sums over more intervals.
    pub const SUMS_MAX: usize = 4_096;

    /// The same with sums over at least 2^`bits` intervals.
    #[must_use]
    pub fn coarse(mut self, bits: u32) -> Self {
        if bits > self.interval_bits {
            let mut sums: BTreeMap<_, IdSum> = BTreeMap::new();
            for ((group, interval), sum) in self.sums {
                sums.entry((group, interval.coarse(bits))).or_default().add(sum);
            }
            (self.sums, self.interval_bits) = (sums, bits);
        }
        self
    }
}

/// Consecutive intervals of a group, and the sum of the ids in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaRun {
    /// The group.
    pub group: ReplicaGroup,
    /// The first interval.
    pub first: Interval,
    /// The last interval, inclusive.
    pub last: Interval,
    /// The sum of all ids in them.
    pub sum: IdSum,
}

/// The part of a search that a store does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchShare {
    /// The token of the state by which the search was divided.
    pub token: String,
    /// What other stores search.
    pub skipped: Vec<ReplicaRun>,
    /// If set, nothing else is searched, and no queue.
    pub only: Option<Vec<ReplicaRun>>,
}

/// What has become of a share since the state by which the search was divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareStatus {
    /// The store holds what it held, or has no share.
    #[default]
    Current,
    /// It has more records now, which it searches as others do.
    Outdated,
    /// It has lost records, so that others cannot rely on it.
    Refused,
}
