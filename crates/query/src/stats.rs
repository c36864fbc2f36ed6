//! Statistics of an answer, and its coverage.

use std::collections::BTreeSet;
use std::time::Duration;

use bucksaw_record::LabelScope;
use bucksaw_store::ShareStatus;

/// The words by which an entry of [`QueryStats::damaged`] is a whole sentence about a database, and no file name.
pub(crate) const UNREADABLE: &str = " cannot be read: ";

/// The name of all damaged files in answers to clients with a label scope.
const UNNAMED_DAMAGE: &str = "a part of the records of this time";

/// Statistics of an answer: what was read, and what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryStats {
    /// Records in the answer.
    pub matched: u64,
    /// Segments with at least one unit that was read.
    pub segments_read: u64,
    /// Segments skipped entirely.
    pub segments_skipped: u64,
    /// Bytes of text scanned.
    pub bytes_scanned: u64,
    /// Bytes of text skipped without searching.
    pub bytes_skipped: u64,
    /// Damaged files, or parts of them: records may be missing from the answer.
    pub damaged: BTreeSet<String>,
    /// The time limit that ended the query early: records may be missing from the answer.
    pub timed_out: Option<Duration>,
    /// Segments in the trash that may have records of the requested time. Retention removed them, so the answer is
    /// complete without them.
    pub trashed: TrashStats,
    /// What has become of the node's share of the search.
    pub(crate) share: ShareStatus,
    /// The coverage.
    pub nodes: NodeStats,
}

/// Segments in the trash, of all nodes that answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrashStats {
    /// Segments.
    pub segments: u64,
    /// Their records, of any time, with replicas counted separately.
    pub records: u64,
}

/// The nodes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStats {
    /// All nodes of the cluster, except those that left.
    pub asked: u64,
    /// Nodes that answered to the end.
    pub answered: u64,
    /// The other nodes.
    pub missing: Vec<MissingNode>,
    /// Whether nodes may exist that the queried node has not heard of.
    pub has_unknown_nodes: bool,
    /// Duplicate node ids, one sentence each: records that one of the two processes accepted may be missing.
    pub duplicate_ids: BTreeSet<String>,
    /// Whether records may be missing because of any of these.
    pub is_incomplete: bool,
}

/// A node that did not answer to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNode {
    /// Its id.
    pub node: String,
    /// Its address.
    pub address: String,
    /// The reason.
    pub reason: MissingReason,
}

/// Why a node did not answer to the end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum MissingReason {
    /// The member list has it as down.
    #[error("is down")]
    Down,
    /// It cannot be reached.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// Another node answers at its address.
    #[error("is not at its address any more: {0} is")]
    WrongNode(String),
    /// It refused the request.
    #[error("refused: {0}")]
    Refused(String),
    /// It does not support the version of the request.
    #[error("has another version of the program: {0}")]
    VersionMismatch(String),
    /// It did not start to answer in time.
    #[error("sent no answer within the time limit")]
    StartTimeout,
    /// It stopped sending.
    #[error("stopped sending while it answered")]
    IdleTimeout,
    /// Its answer has no end.
    #[error("disconnected before the end of its answer")]
    Truncated,
    /// Its answer is malformed.
    #[error("sent an invalid answer: {0}")]
    InvalidReply(String),
}

impl MissingReason {
    /// A stable name for the API.
    pub fn label(&self) -> &'static str {
        self.into()
    }
}

impl Default for NodeStats {
    /// The only node.
    fn default() -> Self {
        let (missing, duplicate_ids) = (Vec::new(), BTreeSet::new());
        Self { asked: 1, answered: 1, missing, has_unknown_nodes: false, duplicate_ids, is_incomplete: false }
    }
}

impl NodeStats {
    fn add(&mut self, other: &Self) {
        self.asked = self.asked.max(other.asked);
        self.is_incomplete |= other.is_incomplete;
        self.has_unknown_nodes |= other.has_unknown_nodes;
        self.duplicate_ids.extend(other.duplicate_ids.iter().cloned());
        for missing in &other.missing {
            if self.missing.iter().all(|have| have.node != missing.node) {
                self.missing.push(missing.clone());
            }
        }
        self.answered = self.asked.saturating_sub(self.missing.len() as u64);
    }
}

impl std::fmt::Display for MissingNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node {} {}", self.address, self.reason)
    }
}

impl TrashStats {
    pub(crate) fn add(&mut self, other: Self) {
        self.segments = self.segments.saturating_add(other.segments);
        self.records = self.records.saturating_add(other.records);
    }
}

impl QueryStats {
    /// Whether records may be missing from the answer.
    pub fn is_partial(&self) -> bool {
        !self.damaged.is_empty() || self.timed_out.is_some() || self.nodes.is_incomplete
    }

    /// Why records may be missing, one sentence each.
    pub fn partial_reasons(&self) -> Vec<String> {
        let missing = self.nodes.missing.iter().filter(|_| self.nodes.is_incomplete).map(ToString::to_string);
        let damaged = self.damaged.iter().map(|name| match name.contains(UNREADABLE) {
            true => name.clone(),
            false => format!("{name} is damaged and was left out"),
        });
        let unknown = "the queried node does not know all nodes of the cluster yet";
        let unknown = self.nodes.has_unknown_nodes.then(|| unknown.to_owned());
        let timed_out = self.timed_out.map(|limit| {
            let seconds = limit.as_secs_f64();
            format!(
                "the query reached its time limit of {seconds} s before all was searched: ask for less time or by a \
                 simpler expression, or raise --query-timeout of the node"
            )
        });
        let duplicate_ids = self.nodes.duplicate_ids.iter().cloned();
        timed_out.into_iter().chain(missing).chain(duplicate_ids).chain(damaged).chain(unknown).collect()
    }

    /// The statistics that a client with this scope may see; all for `None`.
    ///
    /// Segments, blocks and trash hold the records of several tenants. How many of them were read, skipped or removed depends on
    /// records that the client must not know of: even the bytes scanned do, because the skip filter of a block covers all of
    /// its streams. So these numbers are 0, and names of damaged files, which contain their times, are replaced. What remains is
    /// the number of matches, whether the answer is partial, and which nodes are missing.
    pub(crate) fn within(self, scope: Option<&LabelScope>) -> Self {
        if scope.is_none() {
            return self;
        }
        let Self { matched, timed_out, nodes, damaged, .. } = self;
        let damaged = damaged.first().map(|_| UNNAMED_DAMAGE.to_owned()).into_iter().collect();
        Self { matched, timed_out, nodes, damaged, ..Self::default() }
    }

    /// Adds another answer, except for its matches: records may be in both.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.segments_read, other.segments_read),
            (&mut self.segments_skipped, other.segments_skipped),
            (&mut self.bytes_scanned, other.bytes_scanned),
            (&mut self.bytes_skipped, other.bytes_skipped),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.damaged.extend(other.damaged.iter().cloned());
        self.timed_out = self.timed_out.max(other.timed_out);
        self.trashed.add(other.trashed);
        self.nodes.add(&other.nodes);
    }

    /// Counts a scan that panicked as damage.
    pub(crate) fn add_failed_scan(&mut self) {
        self.damaged.insert("a segment could not be searched: internal error".to_owned());
    }
}
