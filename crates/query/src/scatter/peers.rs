//! The nodes of a cluster as queries see them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::{Cluster, Member, MemberState};
use bucksaw_env::{Body, BoxFuture, Clock};
use bucksaw_record::{Id, Millis};
use bucksaw_store::erasure::ErasureSpread;
use tokio::sync::watch;

use super::re_replicated::re_replicated_stores;

/// The nodes of a cluster as this node knows them.
pub trait QueryPeers: Send + Sync + std::fmt::Debug {
    /// This node.
    fn local_peer(&self) -> QueryPeer;

    /// The other known nodes, in a stable order. Includes nodes that are down, and those that left and still hold
    /// records.
    fn remote_peers(&self) -> Vec<QueryPeer>;

    /// Whether unknown nodes may exist, so that no answer is complete.
    fn is_joining(&self) -> bool;

    /// Number of stores that hold each record that is in no queue: the replication factor, or less while that is known.
    /// Answers are complete while fewer stores are missing.
    fn replication_factor(&self) -> usize;

    /// Resolves at or soon after the next change of [`Self::remote_peers`].
    fn changed(&self) -> BoxFuture<()>;

    /// Resolves when records of this node may be shown with those of its peers: it knows what these have erased.
    fn ready(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Calls a peer; see [`bucksaw_env::Net::call`].
    fn call(&self, node: Id, name: &str, body: Body) -> BoxFuture<io::Result<Body>>;
}

/// A node that may be queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPeer {
    /// Its id.
    pub node: Id,
    /// Its address, for messages.
    pub address: String,
    /// Whether it is queried.
    pub is_live: bool,
    /// The oldest time of records that only its queue may hold; `None` if it accepts none.
    pub queue_oldest: Option<Millis>,
    /// Whether it has a store that is not lost and [re-replicated](super::re_replicated_stores()).
    pub is_store: bool,
    /// Another address at which a live process is known to use its id.
    pub duplicate_address: Option<String>,
}

impl QueryPeer {
    /// Describes the duplicate node id, if it has one.
    pub(crate) fn duplicate_id_notice(&self) -> Option<String> {
        let (node, one, other) = (self.node, &self.address, self.duplicate_address.as_ref()?);
        Some(format!(
            "node {node} is used by two processes, at {one} and at {other}; records that one of them accepted may be \
             missing: a data directory was copied, or the node has just moved"
        ))
    }
}

/// The nodes known by gossip.
#[derive(Debug)]
pub struct GossipPeers {
    cluster: Arc<Cluster>,
    clock: Arc<dyn Clock>,
    replication_factor: usize,
    /// Whether all stores share one database, so that none is missing from an answer.
    is_store_shared: bool,
    /// Uptime at creation.
    started_at: Duration,
    /// Whether this node has other nodes to join.
    has_join_targets: bool,
    erasures: Option<ErasureSpread>,
}

/// Time after the start during which the member list may be outdated.
const STARTUP_GRACE: Duration = Duration::from_secs(10);

/// A queue that was empty in the last gossip may hold unreported records of this age, in milliseconds.
const UNREPORTED_MS: u64 = 60_000;

impl GossipPeers {
    /// The nodes of a cluster with this replication factor. The answers of a node with join targets (`--join`) are
    /// incomplete until it has reached the others ([`Cluster::is_bootstrapping`]).
    pub fn new(
        cluster: Arc<Cluster>,
        clock: Arc<dyn Clock>,
        replication_factor: usize,
        has_join_targets: bool,
    ) -> Self {
        let started_at = clock.uptime();
        Self {
            cluster,
            clock,
            replication_factor,
            is_store_shared: false,
            started_at,
            has_join_targets,
            erasures: None,
        }
    }

    /// For stores over one database, which the node that answers reads.
    #[must_use]
    pub fn with_shared_store(self, is_store_shared: bool) -> Self {
        Self { is_store_shared, ..self }
    }

    /// The same with an exchange of erasures before records are shown.
    #[must_use]
    pub fn with_erasures(self, erasures: ErasureSpread) -> Self {
        Self { erasures: Some(erasures), ..self }
    }

    fn re_replicated_stores(&self, members: &[Member]) -> BTreeSet<Id> {
        let is_new = self.clock.uptime().saturating_sub(self.started_at) < STARTUP_GRACE;
        if is_new { BTreeSet::new() } else { re_replicated_stores(members, self.replication_factor) }
    }

    fn peer(&self, member: &Member, re_replicated: &BTreeSet<Id>) -> QueryPeer {
        let facts = &member.facts;
        let is_live = member.is_live();
        let last_report = if is_live { Millis(self.clock.unix_ms()) } else { member.since };
        let unreported = last_report.saturating_sub(UNREPORTED_MS);
        // A node that left has reported its queue and accepts nothing.
        let has_queue = if member.state == MemberState::Left { facts.queue.bytes > 0 } else { facts.roles.ingest };
        QueryPeer {
            node: facts.node,
            address: facts.address.to_string(),
            is_live,
            queue_oldest: has_queue.then(|| facts.queue.oldest.map_or(unreported, |oldest| oldest.min(unreported))),
            is_store: facts.roles.store && !self.is_store_shared && !re_replicated.contains(&facts.node),
            duplicate_address: member.duplicate_suspected_at.map(|address| address.to_string()),
        }
    }

    /// Whether records may be missing without this member. A node that leaves may still hold records.
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
        let is_peer = |member: &&Member| member.facts.node != own && Self::may_hold_records(member);
        let members = self.cluster.members();
        let re_replicated = self.re_replicated_stores(&members);
        members.iter().filter(is_peer).map(|member| self.peer(member, &re_replicated)).collect()
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
                // The node stops, so nothing changes any more.
                std::future::pending::<()>().await;
            }
        })
    }

    fn ready(&self) -> BoxFuture<()> {
        let erasures = self.erasures.clone();
        Box::pin(async move {
            if let Some(erasures) = erasures {
                erasures.refresh().await;
            }
        })
    }

    fn call(&self, node: Id, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (cluster, name, erasures) = (Arc::clone(&self.cluster), name.to_owned(), self.erasures.clone());
        Box::pin(async move {
            if let Some(erasures) = erasures {
                erasures.refresh_with(node).await?;
            }
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
        let duplicate = Member { duplicate_suspected_at: Some("10.0.0.1:4".parse().unwrap()), ..left(&|_| {}) };
        assert!(GossipPeers::may_hold_records(&duplicate), "the other process is live and is not queried");
        for state in [MemberState::Alive, MemberState::Suspect, MemberState::Down] {
            assert!(GossipPeers::may_hold_records(&member(state, &|_| {})), "{state:?}");
        }
    }
}
