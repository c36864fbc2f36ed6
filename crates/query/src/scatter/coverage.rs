//! The coverage of an answer: which nodes it includes, and whether records may be missing from it.
//!
//! A record that stores have taken is in as many stores as the [replication factor](super::QueryPeers::replication_factor);
//! any other record is in the queue of the node that accepted it. So records may be missing if
//!
//! - as many stores are missing as the replication factor, [re-replicated](super::re_replicated_stores()) ones aside,
//! - a node is missing whose queue may contain records of the requested time,
//! - a store failed to which others had left records that they hold too, and no other holder has searched them,
//! - nodes are unknown to this one: it is joining, or another node knows more, or
//! - two live processes are known to share a node id, since only one of them is queried.

use std::collections::BTreeSet;

use bucksaw_record::{Id, Millis};

use super::peers::QueryPeer;
use super::request::ReplyStatus;
use crate::request::Request;
use crate::stats::{MissingNode, MissingReason, NodeStats, QueryStats};

/// A node that is queried.
#[derive(Debug)]
struct CoveredNode {
    peer: QueryPeer,
    missing: Option<MissingReason>,
    /// The last received status.
    status: ReplyStatus,
}

/// The nodes of an answer, the local one first.
#[derive(Debug)]
pub(crate) struct Coverage {
    nodes: Vec<CoveredNode>,
    /// Replies of nodes that search in place of others, after those of all nodes.
    replacements: Vec<CoveredNode>,
    /// Whether records were left to a node that failed, and no other one has searched them.
    is_share_missing: bool,
    replication_factor: usize,
    has_unknown_nodes: bool,
    /// One sentence per duplicate node id.
    duplicate_ids: BTreeSet<String>,
    /// End of the requested time.
    until: Millis,
}

impl Coverage {
    pub(crate) fn new(
        peers: Vec<QueryPeer>,
        replication_factor: usize,
        has_unknown_nodes: bool,
        request: &Request,
    ) -> Self {
        let duplicate_ids = peers.iter().filter_map(QueryPeer::duplicate_id_notice).collect();
        let node = |peer: QueryPeer| {
            let missing = (!peer.is_live).then_some(MissingReason::Down);
            CoveredNode { peer, missing, status: ReplyStatus::default() }
        };
        let nodes = peers.into_iter().map(node).collect();
        Self {
            nodes,
            replacements: Vec::new(),
            is_share_missing: false,
            replication_factor,
            has_unknown_nodes,
            duplicate_ids,
            until: request.to.time(),
        }
    }

    /// Marks a node that did not answer to the end.
    pub(crate) fn mark_missing(&mut self, node: usize, reason: MissingReason) {
        let reply = self.nodes.iter().chain(&self.replacements).nth(node).map(|reply| reply.peer.node);
        // A replacement that fails is a failure of its node.
        if let Some(node) = self.nodes.iter_mut().find(|covered| Some(covered.peer.node) == reply) {
            node.missing.get_or_insert(reason);
        }
    }

    /// Adds the next reply, of a node in place of another.
    pub(crate) fn add_replacement(&mut self, node: usize) {
        let peer = self.nodes.get(node).map(|node| node.peer.clone());
        let covered = |peer| CoveredNode { peer, missing: None, status: ReplyStatus::default() };
        self.replacements.extend(peer.map(covered));
    }

    /// The id of a node, by which it is called; `None` for the local one.
    pub(crate) fn address_of(&self, node: usize) -> Option<Id> {
        self.nodes.get(node).filter(|_| node > 0).map(|node| node.peer.node)
    }

    /// Records were left to a node that failed, and no other one searches them.
    pub(crate) fn mark_share_missing(&mut self) {
        self.is_share_missing = true;
    }

    /// Takes the status of a reply. If the replying node knows more nodes, some nodes are unknown here.
    ///
    /// # Errors
    /// If the status is from another node than the queried one.
    pub(crate) fn accept_status(&mut self, node: usize, status: ReplyStatus) -> Result<(), MissingReason> {
        self.has_unknown_nodes |= status.nodes > self.nodes.len() as u64;
        self.duplicate_ids.extend(status.duplicate_ids());
        let Some(node) = self.nodes.iter_mut().chain(&mut self.replacements).nth(node) else { return Ok(()) };
        if status.is_from_other_node(node.peer.node) {
            return Err(MissingReason::WrongNode(status.node_name()));
        }
        if !status.is_keepalive() {
            node.status = status;
        }
        Ok(())
    }

    pub(crate) fn is_store_missing(&self) -> bool {
        self.missing_nodes().any(|(peer, _)| peer.is_store)
    }

    fn missing_nodes(&self) -> impl Iterator<Item = (&QueryPeer, &MissingReason)> {
        self.nodes.iter().filter_map(|node| node.missing.as_ref().map(|reason| (&node.peer, reason)))
    }

    /// The nodes, and the sum of their statistics. Damaged files are prefixed with the node.
    pub(crate) fn stats(&self) -> QueryStats {
        let mut stats = QueryStats { nodes: self.node_stats(), ..QueryStats::default() };
        for CoveredNode { peer, status, .. } in self.nodes.iter().chain(&self.replacements) {
            stats.add(&status.stats(&format!("node {}", peer.address)));
        }
        stats
    }

    fn node_stats(&self) -> NodeStats {
        let missing = |(peer, reason): (&QueryPeer, &MissingReason)| MissingNode {
            node: peer.node.to_string(),
            address: peer.address.clone(),
            reason: reason.clone(),
        };
        let missing: Vec<MissingNode> = self.missing_nodes().map(missing).collect();
        let asked = self.nodes.len() as u64;
        let queue = self.missing_nodes().any(|(peer, _)| peer.queue_oldest.is_some_and(|from| from <= self.until));
        let stores = self.missing_nodes().filter(|(peer, _)| peer.is_store).count();
        NodeStats {
            asked,
            answered: asked - missing.len() as u64,
            missing,
            has_unknown_nodes: self.has_unknown_nodes,
            duplicate_ids: self.duplicate_ids.clone(),
            is_incomplete: queue
                || self.is_share_missing
                || stores >= self.replication_factor.max(1)
                || self.has_unknown_nodes
                || !self.duplicate_ids.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Expr, Id};

    use super::*;

    #[test]
    fn an_answer_is_partial_when_records_may_be_missing() {
        let peer = |number: u32, queue_from: Option<u64>, store: bool| QueryPeer {
            node: Id::from_bits(u128::from(number)),
            address: format!("10.0.0.{number}:4"),
            is_live: true,
            queue_oldest: queue_from.map(Millis),
            is_store: store,
            duplicate_address: None,
        };
        let nodes = [peer(0, Some(1_000), false), peer(1, None, true), peer(2, None, true), peer(3, Some(5_000), true)];
        let check = |copies: usize, until: u64, lost: &[usize], want: bool| {
            let request = Request::new(Expr::All, Millis(0), Millis(until));
            let mut coverage = Coverage::new(nodes.to_vec(), copies, false, &request);
            lost.iter().for_each(|node| coverage.mark_missing(*node, MissingReason::Truncated));
            let nodes = coverage.stats().nodes;
            assert_eq!((nodes.asked, nodes.answered), (4, 4 - lost.len() as u64));
            assert_eq!(nodes.is_incomplete, want, "{copies} copies, until {until}, without {lost:?}");
        };
        check(2, 9_000, &[], false);
        check(2, 9_000, &[0], true);
        check(2, 999, &[0], false);
        check(2, 9_000, &[1], false);
        check(1, 9_000, &[1], true);
        check(2, 9_000, &[1, 2], true);
        check(3, 9_000, &[1, 2], false);
        check(2, 9_000, &[3], true);
        check(2, 4_000, &[3], false);
        check(2, 4_000, &[3, 1], true);
        let down = QueryPeer { is_live: false, ..nodes[1].clone() };
        let all = Request::new(Expr::All, Millis(0), Millis(5));
        let coverage = Coverage::new(vec![nodes[0].clone(), down], 1, false, &all);
        assert_eq!(coverage.stats().nodes.missing[0].to_string(), "node 10.0.0.1:4 is down");
        assert!(coverage.stats().nodes.is_incomplete && coverage.is_store_missing());
        let mut coverage = Coverage::new(nodes.to_vec(), 2, false, &all);
        let status = |count: u64, node: u32| {
            ReplyStatus { nodes: count, ..ReplyStatus::default() }.with_node(Id::from_bits(u128::from(node)), [])
        };
        assert_eq!(
            (coverage.accept_status(0, ReplyStatus::default()), coverage.accept_status(1, status(4, 1))),
            (Ok(()), Ok(()))
        );
        assert!(!coverage.stats().nodes.is_incomplete);
        let other = Id::from_bits(2).to_string();
        assert_eq!(
            coverage.accept_status(1, status(4, 2)),
            Err(MissingReason::WrongNode(other)),
            "another node has its address"
        );
        coverage.accept_status(2, status(5, 2)).unwrap();
        assert!(coverage.stats().nodes.is_incomplete);
        let duplicate = QueryPeer { duplicate_address: Some("10.0.0.9:4".to_owned()), ..nodes[1].clone() };
        let status = ReplyStatus::default().with_node(duplicate.node, duplicate.duplicate_id_notice());
        let words = "node 00000000000000000000000001 is used by two processes, at 10.0.0.1:4 and at 10.0.0.9:4";
        let check = |coverage: &Coverage| {
            let nodes = coverage.stats().nodes;
            assert!(nodes.is_incomplete && nodes.missing.is_empty());
            assert_eq!(nodes.duplicate_ids.iter().map(|notice| notice.starts_with(words)).collect::<Vec<_>>(), [true]);
        };
        check(&Coverage::new(vec![nodes[0].clone(), duplicate], 2, false, &all));
        let mut by_another = Coverage::new(nodes.to_vec(), 2, false, &all);
        by_another.accept_status(1, status).unwrap();
        check(&by_another);
        let mut divided = Coverage::new(nodes.to_vec(), 2, false, &all);
        divided.add_replacement(1);
        divided.add_replacement(2);
        let other = ReplyStatus { bytes_scanned: 7, damaged: vec!["a".to_owned()], ..ReplyStatus::default() };
        let other = ReplyStatus { version: 1, ..other };
        assert_eq!(divided.accept_status(5, other.clone().with_node(Id::from_bits(2), [])), Ok(()));
        assert!(divided.accept_status(4, other.with_node(Id::from_bits(2), [])).is_err(), "it is of the second node");
        let stats = divided.stats();
        assert_eq!(
            (stats.bytes_scanned, stats.damaged.into_iter().collect()),
            (7, vec!["node 10.0.0.2:4: a".to_owned()])
        );
        assert_eq!((stats.nodes.asked, stats.nodes.is_incomplete), (4, false));
        divided.mark_missing(5, MissingReason::Truncated);
        let reported = divided.stats().nodes;
        assert_eq!((reported.missing[0].address.as_str(), reported.is_incomplete), ("10.0.0.2:4", false));
        divided.mark_share_missing();
        assert!(divided.stats().nodes.is_incomplete, "some records are searched by no store");
        let unknown = Coverage::new(vec![nodes[0].clone()], 2, true, &all).stats().nodes;
        assert!(unknown.is_incomplete && unknown.has_unknown_nodes && unknown.missing.is_empty());
    }
}
