//! The ids of the records that a tail returned last.
//!
//! A record that a client sends again has the same id, and is in the queue twice until a store has it.

use std::collections::{BTreeSet, VecDeque};

use bucksaw_record::Id;

/// A tail remembers `result_bytes_max` divided by this number of ids, within the bounds below: 1 to 4 MB of ids. With
/// fewer, repeated records would be shown twice even under low load.
const BYTES_PER_RECENT_ID: u64 = 2_048;
const RECENT_IDS_MIN: u64 = 16_384;
const RECENT_IDS_MAX: u64 = 65_536;

/// A bounded set of ids that forgets the oldest.
#[derive(Debug)]
pub(crate) struct RecentIds {
    ids_max: usize,
    ids: BTreeSet<Id>,
    order: VecDeque<Id>,
}

impl RecentIds {
    /// An empty set, for a node whose queries may hold this many bytes of results.
    pub(crate) fn for_memory(result_bytes_max: u64) -> Self {
        let ids_max = (result_bytes_max / BYTES_PER_RECENT_ID).clamp(RECENT_IDS_MIN, RECENT_IDS_MAX);
        let ids_max = usize::try_from(ids_max).unwrap_or(usize::MAX);
        Self { ids_max, ids: BTreeSet::new(), order: VecDeque::new() }
    }

    /// Adds an id; `false` if it is in the set.
    pub(crate) fn insert(&mut self, id: Id) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > self.ids_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}
