//! The other nodes, as the store sees them.
//!
//! Whose version this node does not work with is not among those that it takes from or copies to, and so nothing is handed to
//! a node that cannot read it. Such a store counts as one that is missing, not as one that is lost: what it holds is held.

use std::sync::Arc;

use bucksaw_cluster::{Cluster, Facts, Member};
use bucksaw_store::{Peer, PeerStore, Peers};

/// The others that are alive.
#[derive(Debug)]
pub(crate) struct ClusterPeers(pub(crate) Arc<Cluster>);

impl ClusterPeers {
    fn select(&self, wanted: impl Fn(&Facts, &Facts) -> bool) -> Vec<Peer> {
        let (members, own) = (self.0.members(), self.0.facts());
        let others = members.iter().filter(|member| member.facts.node != own.node && member.is_live());
        others.filter(|member| wanted(&own, &member.facts)).map(peer).collect()
    }
}

impl Peers for ClusterPeers {
    fn queues(&self) -> Vec<Peer> {
        // A store may have something left in its queue, from when it took records in, too.
        self.select(|own, facts| (facts.roles.ingest || facts.queue.bytes > 0) && facts.can_serve_queue_to(own))
    }

    fn stores(&self) -> Vec<Peer> {
        self.select(|own, facts| facts.roles.store && !facts.draining && own.can_replicate_to(facts))
    }

    fn peer_stores(&self) -> Vec<PeerStore> {
        let (members, own) = (self.0.members(), self.0.facts());
        let others = members.iter().filter(|member| member.facts.node != own.node && member.facts.roles.store);
        let fellow = |member: &Member| PeerStore {
            peer: peer(member),
            incarnation: member.facts.incarnation,
            fingerprint: member.facts.fingerprint(),
            is_live: member.is_live(),
            is_replaced: is_replaced(member, &members),
            // A node counts its store and measures its free space in one step; before that both are 0.
            has_reported_size: member.facts.free_bytes > 0,
            stored_bytes_at_open: member.facts.stored_bytes_at_open,
            accepts_replicas: !member.facts.draining && own.can_replicate_to(&member.facts),
        };
        others.map(fellow).collect()
    }
}

/// Whether a live node with another id started later at the address of a node that is gone.
fn is_replaced(gone: &Member, members: &[Member]) -> bool {
    let takes_its_place = |other: &Member| {
        let (new, old) = (&other.facts, &gone.facts);
        other.is_live() && new.node != old.node && new.address == old.address && new.incarnation > old.incarnation
    };
    !gone.is_live() && members.iter().any(takes_its_place)
}

fn peer(member: &Member) -> Peer {
    let facts = &member.facts;
    Peer { node: facts.node, address: facts.address, held_bytes: facts.stored.bytes, free_bytes: facts.free_bytes }
}
