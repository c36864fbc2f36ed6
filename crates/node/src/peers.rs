//! The other nodes, as the store sees them.

use std::sync::Arc;

use bucksaw_cluster::{Cluster, Member};
use bucksaw_store::{Fellow, Peer, Peers};

/// The others that are alive.
#[derive(Debug)]
pub(crate) struct Others(pub(crate) Arc<Cluster>);

impl Others {
    fn those(&self, wanted: impl Fn(&Member) -> bool) -> Vec<Peer> {
        let members = self.0.members();
        let others = members.iter().filter(|member| member.facts.node != self.0.node() && member.is_live());
        others.filter(|member| wanted(member)).map(peer).collect()
    }
}

impl Peers for Others {
    fn queues(&self) -> Vec<Peer> {
        // A store may have something left in its queue, from when it took records in, too.
        self.those(|member| member.facts.roles.ingest || member.facts.queue.bytes > 0)
    }

    fn stores(&self) -> Vec<Peer> {
        self.those(|member| member.facts.roles.store && !member.facts.draining)
    }

    fn fellows(&self) -> Vec<Fellow> {
        let members = self.0.members();
        let others = members.iter().filter(|member| member.facts.node != self.0.node() && member.facts.roles.store);
        let fellow = |member: &Member| Fellow {
            peer: peer(member),
            incarnation: member.facts.incarnation,
            mark: member.facts.mark(),
            is_live: member.is_live(),
            takes: !member.facts.draining,
        };
        others.map(fellow).collect()
    }
}

fn peer(member: &Member) -> Peer {
    let facts = &member.facts;
    Peer { node: facts.node, address: facts.address, held_bytes: facts.shelf.bytes, free_bytes: facts.free_bytes }
}
