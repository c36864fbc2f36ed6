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

use super::peers::Peer;
use super::question::Told;
use crate::request::Request;
use crate::stats::{Missing, Nodes, Why};

/// The nodes of an answer, this one first.
#[derive(Debug)]
pub(crate) struct Coverage {
    nodes: Vec<(Peer, Option<Why>)>,
    copies: usize,
    /// Whether there are nodes of which nothing is known here.
    unheard: bool,
    /// Ids that two live processes have, each in a sentence.
    twins: BTreeSet<String>,
    /// The last moment that was asked for.
    until: Millis,
}

impl Coverage {
    pub(crate) fn new(nodes: Vec<Peer>, copies: usize, unheard: bool, request: &Request) -> Self {
        let down = |peer: Peer| {
            let why = (!peer.live).then_some(Why::Down);
            (peer, why)
        };
        let twins = nodes.iter().filter_map(Peer::twins).collect();
        Self { nodes: nodes.into_iter().map(down).collect(), copies, unheard, twins, until: request.to.at() }
    }

    /// A node did not answer, or not to the end.
    pub(crate) fn lose(&mut self, node: usize, why: Why) {
        if let Some((_, lost)) = self.nodes.get_mut(node) {
            lost.get_or_insert(why);
        }
    }

    /// Takes in what a node says first: when it knows of more nodes, this one has not heard of all yet.
    ///
    /// # Errors
    /// When it is another node than the one that was asked.
    pub(crate) fn hear(&mut self, node: usize, told: &Told) -> Result<(), Why> {
        self.unheard |= told.nodes > self.nodes.len() as u64;
        self.twins.extend(told.told_twins());
        match self.nodes.get(node) {
            Some((peer, _)) if told.is_of_another(peer.node) => Err(Why::OtherNode(told.name())),
            _ => Ok(()),
        }
    }

    /// The name of a node, for people.
    pub(crate) fn name(&self, node: usize) -> String {
        self.nodes.get(node).map(|(peer, _)| format!("node {}", peer.address)).unwrap_or_default()
    }

    /// Whether a store is missing.
    pub(crate) fn lacks_store(&self) -> bool {
        self.lost().any(|(peer, _)| peer.store)
    }

    fn lost(&self) -> impl Iterator<Item = (&Peer, &Why)> {
        self.nodes.iter().filter_map(|(peer, why)| why.as_ref().map(|why| (peer, why)))
    }

    /// How it stands.
    pub(crate) fn nodes(&self) -> Nodes {
        let missing = |(peer, why): (&Peer, &Why)| Missing {
            node: peer.node.to_string(),
            address: peer.address.clone(),
            why: why.clone(),
        };
        let missing: Vec<Missing> = self.lost().map(missing).collect();
        let asked = self.nodes.len() as u64;
        let queue = self.lost().any(|(peer, _)| peer.queue_from.is_some_and(|from| from <= self.until));
        let stores = self.lost().filter(|(peer, _)| peer.store).count();
        let incomplete = queue || stores >= self.copies.max(1) || self.unheard || !self.twins.is_empty();
        let twins = self.twins.clone();
        Nodes { asked, answered: asked - missing.len() as u64, missing, unheard: self.unheard, twins, incomplete }
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Expr, Id};

    use super::*;

    #[test]
    fn an_answer_is_partial_when_records_may_be_missing() {
        let peer = |number: u32, queue_from: Option<u64>, store: bool| Peer {
            node: Id::from_bits(u128::from(number)),
            address: format!("10.0.0.{number}:4"),
            live: true,
            queue_from: queue_from.map(Millis),
            store,
            also_at: None,
        };
        let nodes = [peer(0, Some(1_000), false), peer(1, None, true), peer(2, None, true), peer(3, Some(5_000), true)];
        let check = |copies: usize, until: u64, lost: &[usize], want: bool| {
            let request = Request::new(Expr::All, Millis(0), Millis(until));
            let mut coverage = Coverage::new(nodes.to_vec(), copies, false, &request);
            lost.iter().for_each(|node| coverage.lose(*node, Why::CutOff));
            let nodes = coverage.nodes();
            assert_eq!((nodes.asked, nodes.answered), (4, 4 - lost.len() as u64));
            assert_eq!(nodes.incomplete, want, "{copies} copies, until {until}, without {lost:?}");
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
        let down = Peer { live: false, ..nodes[1].clone() };
        let all = Request::new(Expr::All, Millis(0), Millis(5));
        let coverage = Coverage::new(vec![nodes[0].clone(), down], 1, false, &all);
        assert_eq!(coverage.nodes().missing[0].to_string(), "node 10.0.0.1:4 is down");
        assert!(coverage.nodes().incomplete && coverage.lacks_store());
        let mut coverage = Coverage::new(nodes.to_vec(), 2, false, &all);
        let told =
            |count: u64, node: u32| Told { nodes: count, ..Told::default() }.by(Id::from_bits(u128::from(node)), []);
        assert_eq!((coverage.hear(0, &Told::default()), coverage.hear(1, &told(4, 1))), (Ok(()), Ok(())));
        assert!(!coverage.nodes().incomplete);
        let other = Id::from_bits(2).to_string();
        assert_eq!(coverage.hear(1, &told(4, 2)), Err(Why::OtherNode(other)), "its address has been given to another");
        coverage.hear(2, &told(5, 2)).unwrap();
        assert!(coverage.nodes().incomplete);
        let twin = Peer { also_at: Some("10.0.0.9:4".to_owned()), ..nodes[1].clone() };
        let told = Told::default().by(twin.node, twin.twins());
        let words = "node 00000000000000000000000001 runs twice, at 10.0.0.1:4 and at 10.0.0.9:4";
        let check = |coverage: &Coverage| {
            let nodes = coverage.nodes();
            assert!(nodes.incomplete && nodes.missing.is_empty());
            assert_eq!(nodes.twins.iter().map(|twins| twins.starts_with(words)).collect::<Vec<_>>(), [true]);
        };
        check(&Coverage::new(vec![nodes[0].clone(), twin], 2, false, &all));
        let mut by_another = Coverage::new(nodes.to_vec(), 2, false, &all);
        by_another.hear(1, &told).unwrap();
        check(&by_another);
        let unknown = Coverage::new(vec![nodes[0].clone()], 2, true, &all).nodes();
        assert!(unknown.incomplete && unknown.unheard && unknown.missing.is_empty());
    }
}
