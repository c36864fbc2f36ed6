//! The join procedure: a node joins if no other process runs with its id, and only after other nodes have its facts.
//!
//! A copied data directory, or a machine image that is started twice, makes two processes with one node id. Answers do not
//! contain the records of one of them until other nodes know both. So a starting node
//!
//! 1. requests the digests of known nodes and of `--join`, without publishing itself, so that a refused copy leaves no trace;
//! 2. if a digest has its id at another address, probes that address. If a process answers with this id, the node is refused.
//!    Otherwise the node has moved, or has another port than before;
//! 3. announces itself to all live nodes and waits for their replies. Before, it must accept no records.
//!
//! Each step has a timeout. A node that reaches no other node joins too, because it must be able to accept records while all
//! others are down. Two processes that start at the same time may both join. But both have announced themselves to the same
//! nodes before they accept records, so these report both in answers
//! ([`Member::duplicate_suspected_at`](crate::Member::duplicate_suspected_at)).
//!
//! A node that learns of two processes with one id probes them too: after a restart at another port the earlier process is
//! stopped, which foca detects only seconds later. Digest requests are answered after these probes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{BoxFuture, Net, Tasks};
use bucksaw_record::Id;
use tokio::sync::{mpsc, oneshot};

use crate::entry::Entry;
use crate::exchange_schedule::{ExchangeTarget, exchange_once, exchange_with};
use crate::identity::Identity;

/// Timeout of the digest requests.
const DIGEST_WAIT_MAX: Duration = Duration::from_secs(3);

/// The same after the first reply, which names all live nodes; the others may be down.
const DIGEST_WAIT_AFTER_FIRST: Duration = Duration::from_millis(500);

/// Timeout of a probe of another address.
const RESPONDER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Maximum nodes asked for digests.
const DIGEST_TARGETS_MAX: usize = 32;

/// Maximum addresses probed for a duplicate.
pub(crate) const RESPONDERS_MAX: usize = 8;

/// Interval between two probes of processes that share an id.
pub(crate) const PROBE_PERIOD: Duration = Duration::from_secs(5);

/// Maximum nodes to which this one announces itself before it joins. Gossip reaches the others.
pub(crate) const ANNOUNCE_MAX: usize = 64;

/// The progress of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// It searches for a duplicate of its id, unknown to other nodes.
    Probing,
    /// It announces itself to other nodes.
    Announcing,
    /// It has joined: all reachable live nodes have its facts.
    Joined,
    /// Another process runs with its id, at this address.
    Refused(SocketAddr),
}

/// The result of the search for a duplicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateSearch {
    Duplicate(SocketAddr),
    None {
        /// Addresses of live nodes.
        peers: BTreeSet<SocketAddr>,
        /// Stopped processes of this node that others report as live.
        absent: Vec<Identity>,
    },
}

/// The process at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Responder {
    /// A process of this node.
    Node(Id),
    /// No process listens there.
    None,
    /// No reply in time, or one without an identity.
    Unknown,
}

impl Responder {
    /// Whether this process is not at its address any more. It does not return, because the next one has another incarnation.
    pub(crate) fn excludes(self, identity: Identity) -> bool {
        match self {
            Self::Node(node) => node != identity.node,
            Self::None => true,
            Self::Unknown => false,
        }
    }
}

/// Probes of processes that share a node id.
#[derive(Debug, Default)]
pub(crate) struct DuplicateProbes {
    /// When each process was last probed.
    pub(crate) started_at: BTreeMap<Identity, Duration>,
    pub(crate) in_flight: BTreeSet<Identity>,
    /// Digest requests that wait for the results.
    pub(crate) digest_replies: Vec<oneshot::Sender<Vec<Entry>>>,
}

/// Searches for another process with the id of this node, without publishing it.
pub(crate) async fn find_duplicate(
    tasks: &Arc<dyn Tasks>,
    net: &Arc<dyn Net>,
    me: Id,
    goals: BTreeSet<ExchangeTarget>,
) -> DuplicateSearch {
    let (mut peers, mut claimed) = (BTreeSet::new(), BTreeSet::new());
    let asked = goals.into_iter().take(DIGEST_TARGETS_MAX).map(|goal| {
        let (tasks, net) = (Arc::clone(tasks), Arc::clone(net));
        async move { exchange_with(&tasks, &net, &goal, &[]).await.unwrap_or_default() }
    });
    let (mut lists, mut end) = (spawn_all(tasks, asked), tasks.sleep(DIGEST_WAIT_MAX));
    while let Some(list) = recv_until(&mut lists, &mut end).await {
        if peers.is_empty() && !list.is_empty() {
            end = tasks.sleep(DIGEST_WAIT_AFTER_FIRST);
        }
        let (own, rest): (Vec<&Entry>, Vec<&Entry>) = list.iter().partition(|entry| entry.facts.node == me);
        claimed.extend(own.into_iter().flat_map(claimed_identities));
        peers.extend(rest.into_iter().filter_map(Entry::identity).map(|identity| identity.address));
    }
    claimed.retain(|claim| claim.address != net.address());
    peers.remove(&net.address());
    let probed = claimed.into_iter().take(RESPONDERS_MAX).map(|claim| {
        let (tasks, net) = (Arc::clone(tasks), Arc::clone(net));
        async move { (claim, identify_responder(&tasks, &net, claim.address).await) }
    });
    let (mut probes, mut end, mut absent) = (spawn_all(tasks, probed), tasks.sleep(RESPONDER_WAIT_MAX), Vec::new());
    while let Some((claim, responder)) = recv_until(&mut probes, &mut end).await {
        if responder == Responder::Node(me) {
            return DuplicateSearch::Duplicate(claim.address);
        }
        absent.extend(responder.excludes(claim).then_some(claim));
    }
    DuplicateSearch::None { peers, absent }
}

/// Identifies the process at an address, without publishing this node.
pub(crate) async fn identify_responder(tasks: &Arc<dyn Tasks>, net: &Arc<dyn Net>, address: SocketAddr) -> Responder {
    match exchange_once(tasks, net, address, &[], RESPONDER_WAIT_MAX).await {
        // A digest begins with its sender.
        Ok(list) => list.first().map_or(Responder::Unknown, |own| Responder::Node(own.facts.node)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Responder::None,
        Err(_) => Responder::Unknown,
    }
}

/// Runs all futures concurrently; results arrive in the order of completion.
fn spawn_all<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    futures: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> mpsc::Receiver<T> {
    let (sender, results) = mpsc::channel(DIGEST_TARGETS_MAX);
    for future in futures {
        let sender = sender.clone();
        // The receiver may have been dropped.
        tasks.spawn(Box::pin(async move { drop(sender.send(future.await).await) }));
    }
    results
}

async fn recv_until<T>(results: &mut mpsc::Receiver<T>, end: &mut BoxFuture<()>) -> Option<T> {
    tokio::select! {
        biased;
        result = results.recv() => result,
        () = end => None,
    }
}

/// The address of a node in a digest, also if it is reported as departed: the reporting node may be cut off from it.
fn claimed_identities(entry: &Entry) -> impl Iterator<Item = Identity> {
    let facts = &entry.facts;
    let stated = Identity { node: facts.node, incarnation: facts.incarnation, address: facts.address };
    [Some(stated), entry.identity()].into_iter().flatten()
}
