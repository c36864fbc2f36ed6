//! The divisions of recent searches, so that a search of the same time need not ask the stores again what they hold.
//!
//! What stores did not lose they still hold, and each of them checks its share ([`bucksaw_store::SearchShare`]). So an outdated
//! division makes stores search records twice, and never omit one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucksaw_record::Id;
use bucksaw_segment::stored::Interval;

use super::division::Division;
use super::peers::QueryPeer;

/// Maximum divisions: those of the ranges of time that a few users look at.
const DIVISIONS_MAX: usize = 8;

/// What a division depends on, besides what the stores hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DivisionKey {
    /// The first and the last requested interval.
    intervals: (Interval, Interval),
    /// The nodes in the order of the request, and whether they are live.
    nodes: Vec<(Id, bool)>,
}

impl DivisionKey {
    /// Of a search in a range of ids over these nodes.
    pub(super) fn new(ids: (Id, Id), nodes: &[QueryPeer]) -> Self {
        Self { intervals: Interval::range(ids), nodes: nodes.iter().map(|peer| (peer.node, peer.is_live)).collect() }
    }
}

/// The most recent divisions, the latest last.
#[derive(Debug, Default)]
pub(super) struct RecentDivisions(Mutex<VecDeque<RecentDivision>>);

#[derive(Debug)]
struct RecentDivision {
    key: DivisionKey,
    /// The version of what this node held.
    own_version: u64,
    division: Arc<Division>,
}

impl RecentDivisions {
    /// The division of such a search, if this node holds what it held then.
    pub(super) fn get(&self, key: &DivisionKey, own_version: u64) -> Option<Arc<Division>> {
        let divisions = self.lock();
        let recent = divisions.iter().find(|recent| recent.key == *key)?;
        (recent.own_version == own_version).then(|| Arc::clone(&recent.division))
    }

    /// Remembers a division, and forgets an earlier one of such a search.
    pub(super) fn insert(&self, key: DivisionKey, own_version: u64, division: Arc<Division>) {
        let mut divisions = self.lock();
        divisions.retain(|recent| recent.key != key);
        if divisions.len() >= DIVISIONS_MAX {
            divisions.pop_front();
        }
        divisions.push_back(RecentDivision { key, own_version, division });
    }

    /// Forgets a division by which a node could not do its share.
    pub(super) fn forget(&self, division: &Arc<Division>) {
        self.lock().retain(|recent| !Arc::ptr_eq(&recent.division, division));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RecentDivision>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
