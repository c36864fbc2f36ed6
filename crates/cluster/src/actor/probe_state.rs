//! What is known of the probes for duplicate node ids.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::entry::Entry;
use crate::identity::Identity;

/// Probes of processes that share a node id.
#[derive(Debug, Default)]
pub(crate) struct DuplicateProbes {
    /// When each process was last probed.
    pub(super) started_at: BTreeMap<Identity, Duration>,
    pub(super) in_flight: BTreeSet<Identity>,
    /// Digest requests that wait for the results.
    pub(super) digest_replies: Vec<oneshot::Sender<Vec<Entry>>>,
}
