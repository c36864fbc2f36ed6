//! What a node is made of.

use std::sync::Arc;

use bucksaw_cluster::{Cluster, Format, Formats};
use bucksaw_env::{Body, Env, Net, Tasks};
use bucksaw_ingest::Queue;
use bucksaw_ingest::lease::{self, LeaseServer};
use bucksaw_record::Id;
use bucksaw_segment::{queue, stored};
use bucksaw_store::repair::{HELD_IDS, HeldIdsServer, Repair};
use bucksaw_store::{PUT, PeerTimeouts, Puller, ReplicationContext, SegmentReceiver, SegmentStore};

use crate::load_control;
use crate::peers::ClusterPeers;

pub use bucksaw_cluster::Roles;

/// The files that a node of this version takes and gives.
pub const FORMATS: Formats = Formats { queue: Format::new(queue::VERSION), stored: Format::new(stored::VERSION) };

/// An opened node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {
    /// Files, time, randomness.
    pub env: Env,
    /// Tasks and time.
    pub tasks: Arc<dyn Tasks>,
    /// Other nodes.
    pub net: Arc<dyn Net>,
    /// Which node this is.
    pub id: Id,
    /// What it does.
    pub roles: Roles,
    /// What it has taken in.
    pub queue: Arc<Queue>,
    /// What it keeps.
    pub store: Arc<SegmentStore>,
    /// Who else is there.
    pub cluster: Arc<Cluster>,
    /// How long other nodes are waited for.
    pub patience: PeerTimeouts,
    /// When it is busy.
    pub balance: load_control::Config,
}

impl Node {
    /// Lets other nodes take from the queue, and bring to the store, and tells them which files they meet there.
    pub fn register_calls(&self) {
        self.cluster.update_facts(|facts| facts.formats = FORMATS);
        let router = self.cluster.router();
        let leases = LeaseServer::new(Arc::clone(&self.queue), Arc::clone(&self.tasks));
        let call = leases.clone();
        router.add(lease::WAIT, move |body: Body| answer_wait(call.clone(), body));
        let call = leases.clone();
        router.add(lease::FETCH, move |body: Body| answer_fetch(call.clone(), body));
        router.add(lease::ACK, move |body: Body| answer_ack(leases.clone(), body));
        if self.roles.store {
            let receive = SegmentReceiver::new(self.replication_context());
            router.add(PUT, move |body: Body| answer_put(receive.clone(), body));
            let held = HeldIdsServer::new(self.replication_context());
            router.add(HELD_IDS, move |body: Body| answer_ids(held.clone(), body));
        }
    }

    /// The store, and what links it to the others.
    #[must_use]
    pub fn replication_context(&self) -> ReplicationContext {
        ReplicationContext {
            node: self.id,
            store: Arc::clone(&self.store),
            peers: Arc::new(ClusterPeers(Arc::clone(&self.cluster))),
            tasks: Arc::clone(&self.tasks),
            net: Arc::clone(&self.net),
            timeouts: self.patience,
        }
    }

    pub(crate) fn puller(&self) -> Puller {
        // Also where nothing is taken in any more, something may be left.
        Puller::new(self.replication_context(), Some(Arc::clone(&self.queue)))
    }

    pub(crate) fn repair(&self) -> Repair {
        Repair::new(self.replication_context())
    }
}

async fn answer_wait(leases: LeaseServer, body: Body) -> std::io::Result<Body> {
    leases.wait(body).await
}

async fn answer_fetch(leases: LeaseServer, body: Body) -> std::io::Result<Body> {
    leases.fetch(body).await
}

async fn answer_ack(leases: LeaseServer, body: Body) -> std::io::Result<Body> {
    leases.ack(body).await
}

async fn answer_put(receive: SegmentReceiver, body: Body) -> std::io::Result<Body> {
    receive.put(body).await
}

async fn answer_ids(held: HeldIdsServer, body: Body) -> std::io::Result<Body> {
    held.ids(body).await
}
