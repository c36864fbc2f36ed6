//! How far an erasure is on one node.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::Erasure;

/// Names of files that are listed. More are counted.
pub(super) const NAMES_MAX: usize = 20;

/// What this node has done for an erasure. Copies of a record on several nodes, or twice on one, count each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErasureProgress {
    /// Segments of the store that were rewritten.
    pub segments: u64,
    /// Copies of records that were left out of new files.
    pub records: u64,
    /// Bytes of their text.
    pub bytes: u64,
    /// Files of the trash that were removed because they had selected records, or could not be searched.
    pub trash_files: u64,
}

/// The state of an erasure on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErasureStatus {
    /// What was done.
    #[serde(flatten)]
    pub progress: ErasureProgress,
    /// Whether a scan of each file of this node found no selected record, as of the last pass.
    pub is_done: bool,
    /// Segments of the store that are to be scanned.
    pub segments_left: u64,
    /// Queue segments with selected records, or that are to be scanned. They are gathered, and removed after a grace period.
    pub queue_segments_left: u64,
    /// Files over the time range that cannot be searched and are not rewritten: damaged ones, and those whose key is missing. At
    /// most twenty.
    pub damaged: BTreeSet<String>,
}

/// An erasure with its state on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedErasure {
    /// The erasure.
    pub erasure: Erasure,
    /// Its state.
    pub status: ErasureStatus,
}
