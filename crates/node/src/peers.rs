//! The other nodes as the store sees them.
//!
//! Nodes with a version skew are left out of the queues to fetch from and the stores to replicate to, so no node receives a
//! file that it cannot read. A store with a version skew is unavailable, not lost: its records still count as held.

use std::sync::Arc;

use bucksaw_cluster::{Cluster, Facts, Member, MemberState};
use bucksaw_store::{Peer, PeerMember, PeerState, PeerStore, Peers};

/// The members of the cluster, as peers of this store.
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
        // A node without the ingest role may have records in its queue from an earlier run.
        self.select(|own, facts| (facts.roles.ingest || facts.queue.bytes > 0) && facts.can_serve_queue_to(own))
    }

    fn stores(&self) -> Vec<Peer> {
        self.select(|own, facts| facts.roles.store && !facts.draining && own.can_replicate_to(facts))
    }

    fn members(&self) -> Vec<PeerMember> {
        let (members, own) = (self.0.members(), self.0.facts());
        let others = members.iter().filter(|member| member.facts.node != own.node);
        let peer_member = |member: &Member| {
            let holds = member.facts.stored.bytes > 0 || member.facts.queue.bytes > 0;
            let state = match member.state {
                _ if member.is_live() => PeerState::Live,
                MemberState::Left if holds => PeerState::Left,
                MemberState::Left => return None,
                _ => PeerState::Down,
            };
            Some(PeerMember { peer: peer(member), state })
        };
        others.filter_map(peer_member).collect()
    }

    fn peer_stores(&self) -> Vec<PeerStore> {
        let (members, own) = (self.0.members(), self.0.facts());
        let others = members.iter().filter(|member| member.facts.node != own.node && member.facts.roles.store);
        let peer_store = |member: &Member| PeerStore {
            peer: peer(member),
            incarnation: member.facts.incarnation,
            fingerprint: member.facts.fingerprint(),
            is_live: member.is_live(),
            is_replaced: is_replaced(member, &members),
            // A node publishes its stored bytes and its free space together; both are 0 before.
            has_reported_size: member.facts.free_bytes > 0,
            stored_bytes_at_open: member.facts.stored_bytes_at_open,
            accepts_replicas: !member.facts.draining && own.can_replicate_to(&member.facts),
        };
        others.map(peer_store).collect()
    }
}

/// Whether a live node with another id started later at the address of a departed node.
fn is_replaced(departed: &Member, members: &[Member]) -> bool {
    let replaces = |other: &Member| {
        let (new, old) = (&other.facts, &departed.facts);
        other.is_live() && new.node != old.node && new.address == old.address && new.incarnation > old.incarnation
    };
    !departed.is_live() && members.iter().any(replaces)
}

fn peer(member: &Member) -> Peer {
    let facts = &member.facts;
    Peer { node: facts.node, address: facts.address, held_bytes: facts.stored.bytes, free_bytes: facts.free_bytes }
}
