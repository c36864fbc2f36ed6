//! Replies to a divided search, and who searches instead of a store that fails.
//!
//! The first replies are those of all nodes, by number of the node. A reply that ends early leaves the runs that its node searches
//! for others to other holders, whose replies follow with the next numbers, and so on.
//!
//! A store refuses its share if it has lost records since the division, or was restarted, but searches all that it holds. If all holders
//! of a run have refused it, each of them has searched it, as in a search that is not divided.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::division::{Division, Reassigned};
use super::pending_division::PendingDivision;
use super::request::ReplyStatus;

/// A reply, by its node.
#[derive(Debug)]
struct SearchReply {
    node: usize,
    /// The runs that it searches for others; `None` if those that the node owns.
    runs: Option<Vec<usize>>,
    /// Whether others search its runs.
    is_replaced: bool,
    /// Damaged files that its node knew when it took its snapshot; their records are in no run. `None` before its head.
    known_damage: Option<usize>,
}

/// The replies to a request, and the nodes that failed.
#[derive(Debug)]
pub(super) struct Takeover {
    division: Option<Arc<PendingDivision>>,
    replies: Vec<SearchReply>,
    /// Nodes that did not reply to the end, or found damage.
    failed: BTreeSet<usize>,
    /// Other nodes that refused their share.
    refused: BTreeSet<usize>,
}

/// Why other holders search the runs of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeoverReason {
    /// Its node did not reply to the end, or has found damage in what it searched.
    Failed,
    /// Its node refused the share, and searches what it holds.
    Refused,
}

impl Takeover {
    /// The replies of `nodes` nodes, to a request that is divided or not.
    pub(super) fn new(nodes: usize, division: Option<Arc<PendingDivision>>) -> Self {
        let replies = (0..nodes).map(|node| SearchReply { node, runs: None, is_replaced: false, known_damage: None });
        Self { division, replies: replies.collect(), failed: BTreeSet::new(), refused: BTreeSet::new() }
    }

    /// The division, once it is known.
    pub(super) fn division(&self) -> Option<&Division> {
        self.division.as_ref()?.known()
    }

    /// Whether a reply is that of a holder in place of another one.
    pub(super) fn is_replacement(&self, reply: usize) -> bool {
        self.replies.get(reply).is_some_and(|reply| reply.runs.is_some())
    }

    /// Why other holders must search the runs of a reply with this status: its node has lost records since the division, or has found
    /// damage while it searched. `None` if they need not.
    pub(super) fn reason(&mut self, reply: usize, status: &ReplyStatus) -> Option<TakeoverReason> {
        if let Some(division) = self.division.as_ref().filter(|_| status.share_outdated || status.share_refused) {
            division.forget();
        }
        let damaged = status.damaged.len();
        let known = self.replies.get_mut(reply).filter(|_| !status.is_keepalive());
        let known = known.map(|reply| *reply.known_damage.get_or_insert(damaged));
        match known.is_some_and(|known| damaged > known) {
            true => Some(TakeoverReason::Failed),
            false => status.share_refused.then_some(TakeoverReason::Refused),
        }
    }

    /// Divides the runs of a reply among their other holders. The caller asks each returned node, and numbers the replies after all
    /// earlier ones, in this order. `None` if it is not certain that each run is searched to the end, or if the division is not known
    /// yet.
    pub(super) fn replace(&mut self, reply: usize, reason: TakeoverReason) -> Option<Vec<Reassigned>> {
        if self.division.is_none() {
            return Some(Vec::new());
        }
        self.division.iter().for_each(|division| division.forget());
        // The others may leave something to this node later.
        let division = self.division.as_ref()?.known()?;
        let replaced = self.replies.get_mut(reply).filter(|reply| !reply.is_replaced);
        let Some(replaced) = replaced else { return Some(Vec::new()) };
        replaced.is_replaced = true;
        match reason {
            TakeoverReason::Failed => self.failed.insert(replaced.node),
            TakeoverReason::Refused => self.refused.insert(replaced.node),
        };
        let runs = replaced.runs.clone().unwrap_or_else(|| division.owned_by(replaced.node));
        let has_refused = |node: &usize| self.refused.contains(node) && !self.failed.contains(node);
        let reassigned = division.reassign(&runs, |node| self.failed.contains(&node) || self.refused.contains(&node));
        let is_reassigned = |run: &usize| reassigned.iter().any(|reassigned| reassigned.runs.contains(run));
        let is_searched = |run: &usize| is_reassigned(run) || division.holders(*run).iter().all(has_refused);
        if !runs.iter().all(is_searched) {
            return None;
        }
        let replies = reassigned.iter().map(|reassigned| SearchReply {
            node: reassigned.node,
            runs: Some(reassigned.runs.clone()),
            is_replaced: false,
            known_damage: None,
        });
        self.replies.extend(replies);
        Some(reassigned)
    }
}
