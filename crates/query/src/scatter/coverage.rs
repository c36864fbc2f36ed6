//! Which nodes an answer rests on, and whether records may be missing from it.
//!
//! A record that a store took lies in as many stores as the [`copies`](super::Peers::copies) say; one that it did not take
//! lies in the queue of the node that accepted it. So records may be missing when as many stores are missing as there are
//! copies, or a node whose queue could hold records of the time that was asked for; and while there are nodes of
//! which this one has not heard: it is to join some and knows none, or another one knows of more; and while two live processes
//! have one id, by what this node or one that answered knows, for only one of them is asked. A store that is gone and was
//! made good ([`made_good`](super::made_good())) is none of these stores any more, though it is one of the nodes that are
//! missing.

use std::collections::BTreeSet;

use bucksaw_record::Millis;

use super::peers::QueryPeer;
use super::request::ReplyStatus;
use crate::request::Request;
use crate::stats::{MissingNode, MissingReason, NodeStats};

/// The nodes of an answer, this one first.
#[derive(Debug)]
pub(crate) struct Coverage {
    nodes: Vec<(QueryPeer, Option<MissingReason>)>,
    replication_factor: usize,
    /// Whether there are nodes of which nothing is known here.
    has_unknown_nodes: bool,
    /// Ids that two live processes have, each in a sentence.
    duplicate_ids: BTreeSet<String>,
    /// The last moment that was asked for.
    until: Millis,
}

impl Coverage {
    pub(crate) fn new(
        nodes: Vec<QueryPeer>,
        replication_factor: usize,
        has_unknown_nodes: bool,
        request: &Request,
    ) -> Self {
        let down = |peer: QueryPeer| {
            let why = (!peer.is_live).then_some(MissingReason::Down);
            (peer, why)
        };
        let twins = nodes.iter().filter_map(QueryPeer::duplicate_id_notice).collect();
        Self {
            nodes: nodes.into_iter().map(down).collect(),
            replication_factor,
            has_unknown_nodes,
            duplicate_ids: twins,
            until: request.to.time(),
        }
    }

    /// A node did not answer, or not to the end.
    pub(crate) fn mark_missing(&mut self, node: usize, why: MissingReason) {
        if let Some((_, lost)) = self.nodes.get_mut(node) {
            lost.get_or_insert(why);
        }
    }

    /// Takes in what a node says first: when it knows of more nodes, this one has not heard of all yet.
    ///
    /// # Errors
    /// When it is another node than the one that was asked.
    pub(crate) fn check_status(&mut self, node: usize, told: &ReplyStatus) -> Result<(), MissingReason> {
        self.has_unknown_nodes |= told.nodes > self.nodes.len() as u64;
        self.duplicate_ids.extend(told.duplicate_ids());
        match self.nodes.get(node) {
            Some((peer, _)) if told.is_from_other_node(peer.node) => Err(MissingReason::WrongNode(told.node_name())),
            _ => Ok(()),
        }
    }

    /// The name of a node, for people.
    pub(crate) fn node_label(&self, node: usize) -> String {
        self.nodes.get(node).map(|(peer, _)| format!("node {}", peer.address)).unwrap_or_default()
    }

    /// Whether a store is missing.
    pub(crate) fn is_store_missing(&self) -> bool {
        self.missing_nodes().any(|(peer, _)| peer.is_store)
    }

    fn missing_nodes(&self) -> impl Iterator<Item = (&QueryPeer, &MissingReason)> {
        self.nodes.iter().filter_map(|(peer, why)| why.as_ref().map(|why| (peer, why)))
    }

    /// How it stands.
    pub(crate) fn stats(&self) -> NodeStats {
        let missing = |(peer, why): (&QueryPeer, &MissingReason)| MissingNode {
            node: peer.node.to_string(),
            address: peer.address.clone(),
            reason: why.clone(),
        };
        let missing: Vec<MissingNode> = self.missing_nodes().map(missing).collect();
        let asked = self.nodes.len() as u64;
        let queue = self.missing_nodes().any(|(peer, _)| peer.queue_oldest.is_some_and(|from| from <= self.until));
        let stores = self.missing_nodes().filter(|(peer, _)| peer.is_store).count();
        let incomplete = queue
            || stores >= self.replication_factor.max(1)
            || self.has_unknown_nodes
            || !self.duplicate_ids.is_empty();
        let twins = self.duplicate_ids.clone();
        NodeStats {
            asked,
            answered: asked - missing.len() as u64,
            missing,
            has_unknown_nodes: self.has_unknown_nodes,
            duplicate_ids: twins,
            is_incomplete: incomplete,
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
            let nodes = coverage.stats();
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
        assert_eq!(coverage.stats().missing[0].to_string(), "node 10.0.0.1:4 is down");
        assert!(coverage.stats().is_incomplete && coverage.is_store_missing());
        let mut coverage = Coverage::new(nodes.to_vec(), 2, false, &all);
        let told = |count: u64, node: u32| {
            ReplyStatus { nodes: count, ..ReplyStatus::default() }.with_node(Id::from_bits(u128::from(node)), [])
        };
        assert_eq!(
            (coverage.check_status(0, &ReplyStatus::default()), coverage.check_status(1, &told(4, 1))),
            (Ok(()), Ok(()))
        );
        assert!(!coverage.stats().is_incomplete);
        let other = Id::from_bits(2).to_string();
        assert_eq!(
            coverage.check_status(1, &told(4, 2)),
            Err(MissingReason::WrongNode(other)),
            "its address has been given to another"
        );
        coverage.check_status(2, &told(5, 2)).unwrap();
        assert!(coverage.stats().is_incomplete);
        let twin = QueryPeer { duplicate_address: Some("10.0.0.9:4".to_owned()), ..nodes[1].clone() };
        let told = ReplyStatus::default().with_node(twin.node, twin.duplicate_id_notice());
        let words = "node 00000000000000000000000001 is used by two processes, at 10.0.0.1:4 and at 10.0.0.9:4";
        let check = |coverage: &Coverage| {
            let nodes = coverage.stats();
            assert!(nodes.is_incomplete && nodes.missing.is_empty());
            assert_eq!(nodes.duplicate_ids.iter().map(|notice| notice.starts_with(words)).collect::<Vec<_>>(), [true]);
        };
        check(&Coverage::new(vec![nodes[0].clone(), twin], 2, false, &all));
        let mut by_another = Coverage::new(nodes.to_vec(), 2, false, &all);
        by_another.check_status(1, &told).unwrap();
        check(&by_another);
        let unknown = Coverage::new(vec![nodes[0].clone()], 2, true, &all).stats();
        assert!(unknown.is_incomplete && unknown.has_unknown_nodes && unknown.missing.is_empty());
    }
}
