//! What the sweep has found so far.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bucksaw_record::Id;

/// What earlier sweeps found.
#[derive(Debug, Default)]
pub(super) struct SweepState {
    pub(super) queue: HashMap<Id, QueueScan>,
    /// The number of the last erasure that each file of the trash was checked for.
    pub(super) trash: HashMap<String, u64>,
    /// Files of the trash whose key is missing.
    pub(super) keyless_trash: BTreeSet<String>,
    /// The uptime at which the metrics were last computed.
    pub(super) measured_at: Option<Duration>,
}

/// A scan of a queue segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueScan {
    /// The last erasure.
    pub(super) number: u64,
    /// The end of the bytes that were read.
    pub(super) end: u64,
    pub(super) has_match: bool,
}
