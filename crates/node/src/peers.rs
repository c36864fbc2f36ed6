//! The other nodes, as the store sees them.
//!
//! Whose version this node does not work with is not among those that it takes from or copies to, and so nothing is handed to
//! a node that cannot read it. Such a store counts as one that is missing, not as one that is lost: what it holds is held.

use std::sync::Arc;

use bucksaw_cluster::{Cluster, Facts, Member};
use bucksaw_store::{Fellow, Peer, Peers};

/// The others that are alive.
#[derive(Debug)]
pub(crate) struct Others(pub(crate) Arc<Cluster>);

impl Others {
    fn those(&self, wanted: impl Fn(&Facts, &Facts) -> bool) -> Vec<Peer> {
        let (members, own) = (self.0.members(), self.0.facts());
        let others = members.iter().filter(|member| member.facts.node != own.node && member.is_live());
        others.filter(|member| wanted(&own, &member.facts)).map(peer).collect()
    }
}

impl Peers for Others {
    fn queues(&self) -> Vec<Peer> {
        // A store may have something left in its queue, from when it took records in, too.
        self.those(|own, facts| (facts.roles.ingest || facts.queue.bytes > 0) && facts.hands_to(own))
    }

    fn stores(&self) -> Vec<Peer> {
        self.those(|own, facts| facts.roles.store && !facts.draining && own.copies_to(facts))
    }

    fn fellows(&self) -> Vec<Fellow> {
        let (members, own) = (self.0.members(), self.0.facts());
        let others = members.iter().filter(|member| member.facts.node != own.node && member.facts.roles.store);
        let fellow = |member: &Member| Fellow {
            peer: peer(member),
            incarnation: member.facts.incarnation,
            mark: member.facts.mark(),
            is_live: member.is_live(),
            is_replaced: is_replaced(member, &members),
            // A node counts its shelf and measures its free space in one step; before that both are 0.
            has_counted: member.facts.free_bytes > 0,
            opened_bytes: member.facts.opened_bytes,
            takes: !member.facts.draining && own.copies_to(&member.facts),
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
    Peer { node: facts.node, address: facts.address, held_bytes: facts.shelf.bytes, free_bytes: facts.free_bytes }
}
