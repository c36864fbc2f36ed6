//! Whether a node may take its place: no other process runs with its id, and another node knows of it.
//!
//! A data directory that was copied, or an image of a machine that was started twice, makes two nodes of one id. What one of
//! them accepts, answers do not find, until the others know that there are two. So a node that starts
//!
//! 1. asks the nodes that it knows, and those of `--join`, for their lists. It tells nothing of itself, so a copy that is
//!    refused leaves no trace in the cluster;
//! 2. where a list has its id at another address, asks there, too. A process that answers with this id is a twin, and this node
//!    is refused. If none answers, the node has moved, or has another port than before;
//! 3. tells all that are alive of itself, and waits until they have heard it. Until then it must accept nothing.
//!
//! Each step is bounded in time. A node that reaches no other one takes its place all the same: it must be able to accept while
//! all others are down. Two processes that start at the same moment may both take their place. Each has told the same nodes of
//! itself before it accepts anything. So these know of both, and say so in answers
//! ([`Member::also_at`](crate::Member::also_at)).
//!
//! A node that hears of two processes with one id probes them, too: after a restart at another port the earlier one is not
//! there any more, which foca finds out only seconds later. A node answers a request for its list only after that is settled.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{BoxFuture, Net, Tasks};
use bucksaw_record::Id;
use tokio::sync::mpsc;

use crate::entry::Entry;
use crate::exchange_schedule::{ExchangeTarget, exchange_once, exchange_with};
use crate::identity::Identity;

/// How long lists are asked for, at most.
const DIGEST_WAIT_MAX: Duration = Duration::from_secs(3);

/// The same, after the first list came: it tells of all nodes that are alive, and the others may be down.
const DIGEST_WAIT_AFTER_FIRST: Duration = Duration::from_millis(500);

/// How long a process at another address may take to say who it is.
const RESPONDER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Nodes that are asked for their lists.
const DIGEST_TARGETS_MAX: usize = 32;

/// Addresses at which a twin is looked for.
pub(crate) const RESPONDERS_MAX: usize = 8;

/// The time between two probes of processes that claim one id, while it is not known whether both are there.
pub(crate) const PROBE_PERIOD: Duration = Duration::from_secs(5);

/// The most nodes to which this one introduces itself before it takes its place. Gossip reaches the others.
pub(crate) const ANNOUNCE_MAX: usize = 64;

/// Whether a node has taken its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// Not yet: it looks for a twin, and has told no other node of itself.
    Probing,
    /// Not yet: it tells other nodes of itself.
    Announcing,
    /// It has: the other nodes that are alive know of it, as far as they can be reached.
    Joined,
    /// Another process runs with its id, at this address.
    Refused(SocketAddr),
}

/// The result of the search for another process, which sends no facts of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateSearch {
    Duplicate(SocketAddr),
    None {
        /// Where other nodes are alive.
        peers: BTreeSet<SocketAddr>,
        /// Earlier processes of this node that others believe to be alive, and that are not.
        absent: Vec<Identity>,
    },
}

/// Who answers at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Responder {
    /// A process of this node.
    Node(Id),
    /// No process listens there.
    None,
    /// None did in time, or it said nothing of itself.
    Unknown,
}

impl Responder {
    /// Whether no process of a node is at its address any more. One that has gone does not come back: the next one has another
    /// incarnation.
    pub(crate) fn excludes(self, identity: Identity) -> bool {
        match self {
            Self::Node(node) => node != identity.node,
            Self::None => true,
            Self::Unknown => false,
        }
    }
}

/// Looks for another process with the id of this node.
pub(crate) async fn find_duplicate(
    tasks: &Arc<dyn Tasks>,
    net: &Arc<dyn Net>,
    me: Id,
    goals: BTreeSet<ExchangeTarget>,
) -> DuplicateSearch {
    let (mut others, mut claimed) = (BTreeSet::new(), BTreeSet::new());
    let asked = goals.into_iter().take(DIGEST_TARGETS_MAX).map(|goal| {
        let (asking, net) = (Arc::clone(tasks), Arc::clone(net));
        async move { exchange_with(&asking, &net, &goal, &[]).await.unwrap_or_default() }
    });
    let (mut lists, mut end) = (spawn_all(tasks, asked), tasks.sleep(DIGEST_WAIT_MAX));
    while let Some(list) = recv_until(&mut lists, &mut end).await {
        if others.is_empty() && !list.is_empty() {
            end = tasks.sleep(DIGEST_WAIT_AFTER_FIRST);
        }
        let (own, rest): (Vec<&Entry>, Vec<&Entry>) = list.iter().partition(|entry| entry.facts.node == me);
        claimed.extend(own.into_iter().flat_map(claimed_identities));
        others.extend(rest.into_iter().filter_map(Entry::identity).map(|identity| identity.address));
    }
    claimed.retain(|claim| claim.address != net.address());
    others.remove(&net.address());
    let probed = claimed.into_iter().take(RESPONDERS_MAX).map(|claim| {
        let (asking, net) = (Arc::clone(tasks), Arc::clone(net));
        async move { (claim, identify_responder(&asking, &net, claim.address).await) }
    });
    let (mut answers, mut end, mut absent) = (spawn_all(tasks, probed), tasks.sleep(RESPONDER_WAIT_MAX), Vec::new());
    while let Some((claim, answers)) = recv_until(&mut answers, &mut end).await {
        if answers == Responder::Node(me) {
            return DuplicateSearch::Duplicate(claim.address);
        }
        absent.extend(answers.excludes(claim).then_some(claim));
    }
    DuplicateSearch::None { peers: others, absent }
}

/// Finds out who answers at an address, and tells nothing.
pub(crate) async fn identify_responder(tasks: &Arc<dyn Tasks>, net: &Arc<dyn Net>, address: SocketAddr) -> Responder {
    match exchange_once(tasks, net, address, &[], RESPONDER_WAIT_MAX).await {
        // The first of a list is about the node itself.
        Ok(list) => list.first().map_or(Responder::Unknown, |own| Responder::Node(own.facts.node)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Responder::None,
        Err(_) => Responder::Unknown,
    }
}

/// Does all of this at the same time. What comes of it comes in the order in which it does.
fn spawn_all<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    doing: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> mpsc::Receiver<T> {
    let (tell, done) = mpsc::channel(DIGEST_TARGETS_MAX);
    for one in doing {
        let tell = tell.clone();
        // The one who asked may not wait any longer.
        tasks.spawn(Box::pin(async move { drop(tell.send(one.await).await) }));
    }
    done
}

async fn recv_until<T>(done: &mut mpsc::Receiver<T>, end: &mut BoxFuture<()>) -> Option<T> {
    tokio::select! {
        biased;
        one = done.recv() => one,
        () = end => None,
    }
}

/// Where a node is, by a list. Of one that is gone too: the node that says so may have been cut off from it.
fn claimed_identities(entry: &Entry) -> impl Iterator<Item = Identity> {
    let facts = &entry.facts;
    let told = Identity { node: facts.node, incarnation: facts.incarnation, address: facts.address };
    [Some(told), entry.identity()].into_iter().flatten()
}
