//! What an answer rests on.

use std::collections::BTreeSet;
use std::time::Duration;

/// What was read for an answer, and what is missing from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryStats {
    /// Records in the answer.
    pub matched: u64,
    /// Segments of which at least one part was read.
    pub segments_read: u64,
    /// Segments that could be passed over whole.
    pub segments_skipped: u64,
    /// Bytes of text that were searched.
    pub bytes_scanned: u64,
    /// Bytes of text skipped without searching.
    pub bytes_skipped: u64,
    /// Files, or parts of them, that could not be read: records may be missing from the answer.
    pub damaged: BTreeSet<String>,
    /// The time limit that ended the query before all was searched: records may be missing from the answer.
    pub timed_out: Option<Duration>,
    /// What is in the trash and may have records of the answer's time: retention removed it, so nothing is missing because
    /// of it.
    pub trashed: TrashStats,
    /// The nodes that were asked.
    pub nodes: NodeStats,
}

/// Segments in the trash, of all nodes that answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrashStats {
    /// Segments.
    pub segments: u64,
    /// Their records, of any time. Stores may keep copies of one record.
    pub records: u64,
}

/// Which nodes an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStats {
    /// The nodes of the cluster, but for those that said goodbye.
    pub asked: u64,
    /// Those that gave all they have.
    pub answered: u64,
    /// The others.
    pub missing: Vec<MissingNode>,
    /// Whether there are nodes of which the one that was asked has not heard yet.
    pub has_unknown_nodes: bool,
    /// Ids that two live processes have, each in a sentence: a data directory was copied, or a node has just moved. What one of
    /// them accepted may be missing.
    pub duplicate_ids: BTreeSet<String>,
    /// Whether these could hold records that no other node has.
    pub is_incomplete: bool,
}

/// A node that did not answer, or not to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNode {
    /// Its id.
    pub node: String,
    /// Its address.
    pub address: String,
    /// Why.
    pub reason: MissingReason,
}

/// Why a node did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingReason {
    /// The cluster knows that it is not there.
    #[error("is down")]
    Down,
    /// It cannot be reached.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// Another node answers at its address.
    #[error("is not at its address any more: {0} is")]
    WrongNode(String),
    /// It would not answer.
    #[error("refused: {0}")]
    Refused(String),
    /// It does not understand the question.
    #[error("has another version of the program: {0}")]
    VersionMismatch(String),
    /// It did not begin in time.
    #[error("sent no answer within the time limit")]
    StartTimeout,
    /// It fell silent.
    #[error("stopped sending while it answered")]
    IdleTimeout,
    /// Its answer ended before its end.
    #[error("disconnected before the end of its answer")]
    Truncated,
    /// Its answer makes no sense.
    #[error("sent an invalid answer: {0}")]
    InvalidReply(String),
}

impl MissingReason {
    /// A word for it, that stays the same.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Unreachable(_) => "unreachable",
            Self::WrongNode(_) => "wrong_node",
            Self::Refused(_) => "refused",
            Self::VersionMismatch(_) => "version_mismatch",
            Self::StartTimeout => "start_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::Truncated => "truncated",
            Self::InvalidReply(_) => "invalid_reply",
        }
    }
}

impl Default for NodeStats {
    /// This node alone.
    fn default() -> Self {
        Self {
            asked: 1,
            answered: 1,
            missing: Vec::new(),
            has_unknown_nodes: false,
            duplicate_ids: BTreeSet::new(),
            is_incomplete: false,
        }
    }
}

impl NodeStats {
    /// What two answers rest on that were put together.
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
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.damaged.is_empty() || self.timed_out.is_some() || self.nodes.is_incomplete
    }

    /// Why records may be missing, in sentences.
    #[must_use]
    pub fn partial_reasons(&self) -> Vec<String> {
        let missing = self.nodes.missing.iter().filter(|_| self.nodes.is_incomplete).map(ToString::to_string);
        let damaged = self.damaged.iter().map(|name| format!("{name} is damaged and was left out"));
        let unheard = "the queried node does not know all nodes of the cluster yet";
        let unheard = self.nodes.has_unknown_nodes.then(|| unheard.to_owned());
        let timed_out = self.timed_out.map(|limit| {
            let seconds = limit.as_secs_f64();
            format!(
                "the query reached its time limit of {seconds} s before all was searched: ask for less time or by a \
                 simpler expression, or raise --query-timeout of the node"
            )
        });
        let twins = self.nodes.duplicate_ids.iter().cloned();
        timed_out.into_iter().chain(missing).chain(twins).chain(damaged).chain(unheard).collect()
    }

    /// Adds what another answer read and missed. What matched is not added: records may be in both.
    pub(crate) fn add(&mut self, other: &Self) {
        self.segments_read += other.segments_read;
        self.segments_skipped += other.segments_skipped;
        self.bytes_scanned += other.bytes_scanned;
        self.bytes_skipped += other.bytes_skipped;
        self.damaged.extend(other.damaged.iter().cloned());
        self.timed_out = self.timed_out.max(other.timed_out);
        self.trashed.add(other.trashed);
        self.nodes.add(&other.nodes);
    }
}
