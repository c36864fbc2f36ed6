//! What a question over the cluster needs to know of the other nodes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::{Cluster, Member, State};
use bucksaw_doors::{Body, Clock, Waiting};
use bucksaw_record::{Id, Millis};
use tokio::sync::watch;

use super::made_good::made_good;

/// The other nodes, as this one sees them now.
pub trait Peers: Send + Sync + std::fmt::Debug {
    /// This node.
    fn own(&self) -> Peer;

    /// The others that are known, also those that are down, and those that said goodbye with records that may be nowhere
    /// else; in an order that stays.
    fn others(&self) -> Vec<Peer>;

    /// Whether others may be there of which nothing was heard yet: then no answer is complete.
    fn is_awaiting(&self) -> bool;

    /// In how many stores each record lies that no queue holds: the replication factor, or less while it is known to be
    /// less. So many stores may be missing, less one, and nothing is missing from an answer.
    fn copies(&self) -> usize;

    /// Resolves when [`Self::others`] has changed since this was called, or soon after.
    fn changed(&self) -> Waiting<()>;

    /// Calls one of them; see [`bucksaw_doors::Net::call`].
    fn call(&self, node: Id, name: &str, body: Body) -> Waiting<io::Result<Body>>;
}

/// A node, as far as a question is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub node: Id,
    /// Its address, as people know it.
    pub address: String,
    /// Whether it is worth asking.
    pub live: bool,
    /// The oldest time that a record may have which only its queue holds; `None` when it takes in nothing.
    pub queue_from: Option<Millis>,
    /// Whether it keeps records on a shelf; not when it is gone and [made good](super::made_good()).
    pub store: bool,
    /// Another address at which a live process has its id, by what is known here.
    pub also_at: Option<String>,
}

impl Peer {
    /// That two live processes have its id, for people.
    pub(crate) fn twins(&self) -> Option<String> {
        let (node, one, other) = (self.node, &self.address, self.also_at.as_ref()?);
        Some(format!(
            "node {node} runs twice, at {one} and at {other}, and what one of them accepted is not found: a data directory was \
             copied, or the node has just moved"
        ))
    }
}

/// The nodes that gossip tells of.
#[derive(Debug)]
pub struct Gossiped {
    cluster: Arc<Cluster>,
    clock: Arc<dyn Clock>,
    copies: usize,
    /// The uptime at which this was made.
    since: Duration,
    /// Whether there are others to join.
    joins: bool,
}

/// For so long after a start what is known of other nodes may be what was known before it.
const NEWS: Duration = Duration::from_secs(10);

/// Of a queue that was empty when its node last told of it, records from so long before count as possible: they came in
/// after that, and nobody else was told. In milliseconds.
const UNTOLD_MS: u64 = 60_000;

impl Gossiped {
    /// The nodes of a cluster that keeps so many copies of each record.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, clock: Arc<dyn Clock>, copies: usize) -> Self {
        let since = clock.uptime();
        Self { cluster, clock, copies, since, joins: false }
    }

    /// The same, when there are others to join. As long as this node awaits some of them it knows nothing of what they hold,
    /// and says so ([`Cluster::is_awaiting`]).
    #[must_use]
    pub fn joining(self) -> Self {
        Self { joins: true, ..self }
    }

    /// Stores that are gone and need not come back.
    fn made_good(&self, members: &[Member]) -> BTreeSet<Id> {
        let is_new = self.clock.uptime().saturating_sub(self.since) < NEWS;
        if is_new { BTreeSet::new() } else { made_good(members, self.copies) }
    }

    fn peer(&self, member: &Member, made_good: &BTreeSet<Id>) -> Peer {
        let facts = &member.facts;
        let live = member.is_live();
        let heard = if live { Millis(self.clock.unix_ms()) } else { member.since };
        let untold = heard.minus(UNTOLD_MS);
        // Who said goodbye had told all, and takes in no more.
        let takes_in = if member.state == State::Left { facts.queue.bytes > 0 } else { facts.roles.ingest };
        Peer {
            node: facts.node,
            address: facts.address.to_string(),
            live,
            queue_from: takes_in.then(|| facts.queue.oldest.map_or(untold, |oldest| oldest.min(untold))),
            store: facts.roles.store && !made_good.contains(&facts.node),
            also_at: member.also_at.map(|address| address.to_string()),
        }
    }

    /// Whether records may be missing while it does not answer. A node that stops says goodbye, and what it holds is not
    /// elsewhere by that.
    fn counts(member: &Member) -> bool {
        let holds = member.facts.queue.bytes > 0 || member.facts.shelf.bytes > 0;
        member.state != State::Left || holds || member.also_at.is_some()
    }
}

impl Peers for Gossiped {
    fn own(&self) -> Peer {
        let own = self.cluster.node();
        let members = self.cluster.members();
        match members.iter().find(|member| member.facts.node == own) {
            Some(member) => self.peer(member, &BTreeSet::new()),
            None => Peer {
                node: own,
                address: String::new(),
                live: true,
                queue_from: Some(Millis(0)),
                store: true,
                also_at: None,
            },
        }
    }

    fn others(&self) -> Vec<Peer> {
        let own = self.cluster.node();
        let there = |member: &&Member| member.facts.node != own && Self::counts(member);
        let members = self.cluster.members();
        let made_good = self.made_good(&members);
        members.iter().filter(there).map(|member| self.peer(member, &made_good)).collect()
    }

    fn is_awaiting(&self) -> bool {
        self.joins && self.cluster.is_awaiting()
    }

    fn copies(&self) -> usize {
        self.copies
    }

    fn changed(&self) -> Waiting<()> {
        let mut changes: watch::Receiver<_> = self.cluster.changed();
        Box::pin(async move {
            if changes.changed().await.is_err() {
                // The node stops: nothing changes any more.
                std::future::pending::<()>().await;
            }
        })
    }

    fn call(&self, node: Id, name: &str, body: Body) -> Waiting<io::Result<Body>> {
        let (cluster, name) = (Arc::clone(&self.cluster), name.to_owned());
        Box::pin(async move {
            let members = cluster.members();
            let member = members.iter().find(|member| member.facts.node == node);
            let member = member.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the node is gone"))?;
            cluster.call(member, &name, body).await
        })
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_cluster::Facts;

    use super::*;

    #[test]
    fn a_node_that_said_goodbye_counts_while_it_holds_something_or_another_process_has_its_id() {
        let node = Id::from_bits(5);
        let member = |state: State, change: &dyn Fn(&mut Facts)| {
            let mut facts = Facts::new(node);
            change(&mut facts);
            Member { facts: Arc::new(facts), state, since: Millis(0), twin: None, also_at: None, apart: None }
        };
        let left = |change: &dyn Fn(&mut Facts)| member(State::Left, change);
        assert!(!Gossiped::counts(&left(&|_| {})));
        assert!(Gossiped::counts(&left(&|facts| facts.queue.bytes = 1)));
        assert!(Gossiped::counts(&left(&|facts| facts.shelf.bytes = 1)));
        let twin = Member { also_at: Some("10.0.0.1:4".parse().unwrap()), ..left(&|_| {}) };
        assert!(Gossiped::counts(&twin), "the other one is there, and what it holds is in no answer");
        for state in [State::Alive, State::Suspect, State::Down] {
            assert!(Gossiped::counts(&member(state, &|_| {})), "{state:?}");
        }
    }
}
