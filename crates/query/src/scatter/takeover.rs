//! Replies to a divided search, and who searches instead of a store that fails.
//!
//! The first replies are those of all nodes, by number of the node. A reply that ends early leaves the runs that its node searches
//! for others to other holders, whose replies follow with the next numbers, and so on.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::division::{Division, Reassigned};
use super::pending_division::PendingDivision;
use super::request::ReplyStatus;
use crate::stats::MissingReason;

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
    failed: BTreeSet<usize>,
}

impl Takeover {
    /// The replies of `nodes` nodes, to a request that is divided or not.
    pub(super) fn new(nodes: usize, division: Option<Arc<PendingDivision>>) -> Self {
        let replies = (0..nodes).map(|node| SearchReply { node, runs: None, is_replaced: false, known_damage: None });
        Self { division, replies: replies.collect(), failed: BTreeSet::new() }
    }

    /// The division, once it is known.
    pub(super) fn division(&self) -> Option<&Division> {
        self.division.as_ref()?.known()
    }

    /// Whether a reply is that of a holder in place of another one.
    pub(super) fn is_replacement(&self, reply: usize) -> bool {
        self.replies.get(reply).is_some_and(|reply| reply.runs.is_some())
    }

    /// Whether other holders must search the runs of a reply with this status: its node has lost records since the division, or has
    /// found damage while it searched.
    ///
    /// # Errors
    /// If the reply replaces another one and its node refuses: such a reply has nothing else.
    pub(super) fn needs_replacement(&mut self, reply: usize, status: &ReplyStatus) -> Result<bool, MissingReason> {
        if status.share_refused && self.is_replacement(reply) {
            return Err(MissingReason::Refused("it has lost records since the search was divided".to_owned()));
        }
        if let Some(division) = self.division.as_ref().filter(|_| status.share_outdated || status.share_refused) {
            division.forget();
        }
        let damaged = status.damaged.len();
        let known = self.replies.get_mut(reply).filter(|_| !status.is_keepalive());
        let known = known.map(|reply| *reply.known_damage.get_or_insert(damaged));
        Ok(status.share_refused || known.is_some_and(|known| damaged > known))
    }

    /// Divides the runs of a failed reply among their other holders. The caller asks each returned node, and numbers the replies
    /// after all earlier ones, in this order. `None` if a run has no other holder, or if the division is not known yet.
    pub(super) fn replace(&mut self, reply: usize) -> Option<Vec<Reassigned>> {
        if self.division.is_none() {
            return Some(Vec::new());
        }
        // The others may leave something to this node later.
        let division = self.division.as_ref()?.known()?;
        let failed = self.replies.get_mut(reply).filter(|reply| !reply.is_replaced);
        let Some(failed) = failed else { return Some(Vec::new()) };
        failed.is_replaced = true;
        self.failed.insert(failed.node);
        self.division.iter().for_each(|division| division.forget());
        let runs = failed.runs.clone().unwrap_or_else(|| division.owned_by(failed.node));
        let reassigned = division.reassign(&runs, &self.failed)?;
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
