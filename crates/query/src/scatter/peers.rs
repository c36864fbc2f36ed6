//! What a question over the cluster needs to know of the other nodes.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::{Cluster, Member, MemberState};
use bucksaw_env::{Body, BoxFuture, Clock};
use bucksaw_record::{Id, Millis};
use tokio::sync::watch;

use super::re_replicated::re_replicated_stores;

/// The other nodes, as this one sees them now.
pub trait QueryPeers: Send + Sync + std::fmt::Debug {
    /// This node.
    fn local_peer(&self) -> QueryPeer;

    /// The others that are known, also those that are down, and those that said goodbye with records that may be nowhere
    /// else; in an order that stays.
    fn remote_peers(&self) -> Vec<QueryPeer>;

    /// Whether others may be there of which nothing was heard yet: then no answer is complete.
    fn is_joining(&self) -> bool;

    /// In how many stores each record lies that no queue holds: the replication factor, or less while it is known to be
    /// less. So many stores may be missing, less one, and nothing is missing from an answer.
    fn replication_factor(&self) -> usize;

    /// Resolves when [`Self::others`] has changed since this was called, or soon after.
    fn changed(&self) -> BoxFuture<()>;

    /// Calls one of them; see [`bucksaw_env::Net::call`].
    fn call(&self, node: Id, name: &str, body: Body) -> BoxFuture<io::Result<Body>>;
}

/// A node, as far as a question is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPeer {
    /// Its id.
    pub node: Id,
    /// Its address, as people know it.
    pub address: String,
    /// Whether it is worth asking.
    pub is_live: bool,
    /// The oldest time that a record may have which only its queue holds; `None` when it takes in nothing.
    pub queue_oldest: Option<Millis>,
    /// Whether it keeps records on a store; not when it is gone and [made good](super::made_good()).
    pub is_store: bool,
    /// Another address at which a live process has its id, by what is known here.
    pub duplicate_address: Option<String>,
}

impl QueryPeer {
    /// That two live processes have its id, for people.
    pub(crate) fn duplicate_id_notice(&self) -> Option<String> {
        let (node, one, other) = (self.node, &self.address, self.duplicate_address.as_ref()?);
        Some(format!(
            "node {node} is used by two processes, at {one} and at {other}; records that one of them accepted may be missing: a data directory was \
             copied, or the node has just moved"
        ))
    }
}

/// The nodes that gossip tells of.
#[derive(Debug)]
pub struct GossipPeers {
    cluster: Arc<Cluster>,
    clock: Arc<dyn Clock>,
    replication_factor: usize,
    /// The uptime at which this was made.
    started_at: Duration,
    /// Whether there are others to join.
    has_join_targets: bool,
}

/// For so long after a start what is known of other nodes may be what was known before it.
const STARTUP_GRACE: Duration = Duration::from_secs(10);

/// Of a queue that was empty when its node last told of it, records from so long before count as possible: they came in
/// after that, and nobody else was told. In milliseconds.
const UNREPORTED_MS: u64 = 60_000;

impl GossipPeers {
    /// The nodes of a cluster that keeps so many copies of each record.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, clock: Arc<dyn Clock>, replication_factor: usize) -> Self {
        let since = clock.uptime();
        Self { cluster, clock, replication_factor, started_at: since, has_join_targets: false }
    }

    /// The same, when there are others to join. As long as this node awaits some of them it knows nothing of what they hold,
    /// and says so ([`Cluster::is_awaiting`]).
    #[must_use]
    pub fn with_join_targets(self) -> Self {
        Self { has_join_targets: true, ..self }
    }

    /// Stores that are gone and need not come back.
    fn re_replicated_stores(&self, members: &[Member]) -> BTreeSet<Id> {
        let is_new = self.clock.uptime().saturating_sub(self.started_at) < STARTUP_GRACE;
        if is_new { BTreeSet::new() } else { re_replicated_stores(members, self.replication_factor) }
    }

    fn peer(&self, member: &Member, re_replicated: &BTreeSet<Id>) -> QueryPeer {
        let facts = &member.facts;
        let live = member.is_live();
        let heard = if live { Millis(self.clock.unix_ms()) } else { member.since };
        let untold = heard.saturating_sub(UNREPORTED_MS);
        // Who said goodbye had told all, and takes in no more.
        let takes_in = if member.state == MemberState::Left { facts.queue.bytes > 0 } else { facts.roles.ingest };
        QueryPeer {
            node: facts.node,
            address: facts.address.to_string(),
            is_live: live,
            queue_oldest: takes_in.then(|| facts.queue.oldest.map_or(untold, |oldest| oldest.min(untold))),
            is_store: facts.roles.store && !re_replicated.contains(&facts.node),
            duplicate_address: member.duplicate_suspected_at.map(|address| address.to_string()),
        }
    }

    /// Whether records may be missing while it does not answer. A node that stops says goodbye, and what it holds is not
    /// elsewhere by that.
    fn may_hold_records(member: &Member) -> bool {
        let holds = member.facts.queue.bytes > 0 || member.facts.stored.bytes > 0;
        member.state != MemberState::Left || holds || member.duplicate_suspected_at.is_some()
    }
}

impl QueryPeers for GossipPeers {
    fn local_peer(&self) -> QueryPeer {
        let own = self.cluster.node_id();
        let members = self.cluster.members();
        match members.iter().find(|member| member.facts.node == own) {
            Some(member) => self.peer(member, &BTreeSet::new()),
            None => QueryPeer {
                node: own,
                address: String::new(),
                is_live: true,
                queue_oldest: Some(Millis(0)),
                is_store: true,
                duplicate_address: None,
            },
        }
    }

    fn remote_peers(&self) -> Vec<QueryPeer> {
        let own = self.cluster.node_id();
        let there = |member: &&Member| member.facts.node != own && Self::may_hold_records(member);
        let members = self.cluster.members();
        let re_replicated = self.re_replicated_stores(&members);
        members.iter().filter(there).map(|member| self.peer(member, &re_replicated)).collect()
    }

    fn is_joining(&self) -> bool {
        self.has_join_targets && self.cluster.is_bootstrapping()
    }

    fn replication_factor(&self) -> usize {
        self.replication_factor
    }

    fn changed(&self) -> BoxFuture<()> {
        let mut changes: watch::Receiver<_> = self.cluster.subscribe();
        Box::pin(async move {
            if changes.changed().await.is_err() {
                // The node stops: nothing changes any more.
                std::future::pending::<()>().await;
            }
        })
    }

    fn call(&self, node: Id, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (cluster, name) = (Arc::clone(&self.cluster), name.to_owned());
        Box::pin(async move {
            let members = cluster.members();
            let member = members.iter().find(|member| member.facts.node == node);
            let member =
                member.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the node is no longer a member"))?;
            cluster.call(member, &name, body).await
        })
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_cluster::Facts;

    use super::*;

    #[test]
    fn a_node_that_left_counts_while_it_holds_records_or_its_id_is_duplicate() {
        let node = Id::from_bits(5);
        let member = |state: MemberState, change: &dyn Fn(&mut Facts)| {
            let mut facts = Facts::new(node);
            change(&mut facts);
            Member {
                facts: Arc::new(facts),
                state,
                since: Millis(0),
                duplicate_at: None,
                duplicate_suspected_at: None,
                version_skew: None,
            }
        };
        let left = |change: &dyn Fn(&mut Facts)| member(MemberState::Left, change);
        assert!(!GossipPeers::may_hold_records(&left(&|_| {})));
        assert!(GossipPeers::may_hold_records(&left(&|facts| facts.queue.bytes = 1)));
        assert!(GossipPeers::may_hold_records(&left(&|facts| facts.stored.bytes = 1)));
        let twin = Member { duplicate_suspected_at: Some("10.0.0.1:4".parse().unwrap()), ..left(&|_| {}) };
        assert!(GossipPeers::may_hold_records(&twin), "the other one is there, and what it holds is in no answer");
        for state in [MemberState::Alive, MemberState::Suspect, MemberState::Down] {
            assert!(GossipPeers::may_hold_records(&member(state, &|_| {})), "{state:?}");
        }
    }
}
