//! What a node is made of.

use std::sync::Arc;

use bucksaw_cluster::{Cluster, Format, Formats};
use bucksaw_doors::{Body, Doors, Net, Tasks};
use bucksaw_ingest::Queue;
use bucksaw_ingest::handover::{self, Handover};
use bucksaw_record::Id;
use bucksaw_segment::{queue, shelf};
use bucksaw_store::repair::{Held, IDS, Repair};
use bucksaw_store::{Linked, PUT, Patience, Puller, Receive, Shelf};

use crate::balance;
use crate::peers::Others;

pub use bucksaw_cluster::Roles;

/// The files that a node of this version takes and gives.
pub const FORMATS: Formats = Formats { queue: Format::new(queue::VERSION), shelf: Format::new(shelf::VERSION) };

/// An opened node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {
    /// Files, time, randomness.
    pub doors: Doors,
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
    pub shelf: Arc<Shelf>,
    /// Who else is there.
    pub cluster: Arc<Cluster>,
    /// How long other nodes are waited for.
    pub patience: Patience,
    /// When it is busy.
    pub balance: balance::Config,
}

impl Node {
    /// Lets other nodes take from the queue, and bring to the shelf, and tells them which files they meet there.
    pub fn answer_calls(&self) {
        self.cluster.update(|facts| facts.formats = FORMATS);
        let router = self.cluster.router();
        let handover = Handover::new(Arc::clone(&self.queue), Arc::clone(&self.tasks));
        let call = handover.clone();
        router.add(handover::WAIT, move |body: Body| wait(call.clone(), body));
        let call = handover.clone();
        router.add(handover::TAKE, move |body: Body| take(call.clone(), body));
        router.add(handover::SETTLE, move |body: Body| settle(handover.clone(), body));
        if self.roles.store {
            let receive = Receive::new(self.linked());
            router.add(PUT, move |body: Body| put(receive.clone(), body));
            let held = Held::new(self.linked());
            router.add(IDS, move |body: Body| ids(held.clone(), body));
        }
    }

    /// The store, and what links it to the others.
    #[must_use]
    pub fn linked(&self) -> Linked {
        Linked {
            node: self.id,
            shelf: Arc::clone(&self.shelf),
            peers: Arc::new(Others(Arc::clone(&self.cluster))),
            tasks: Arc::clone(&self.tasks),
            net: Arc::clone(&self.net),
            patience: self.patience,
        }
    }

    pub(crate) fn puller(&self) -> Puller {
        // Also where nothing is taken in any more, something may be left.
        Puller::new(self.linked(), Some(Arc::clone(&self.queue)))
    }

    pub(crate) fn repair(&self) -> Repair {
        Repair::new(self.linked())
    }
}

async fn wait(handover: Handover, body: Body) -> std::io::Result<Body> {
    handover.wait(body).await
}

async fn take(handover: Handover, body: Body) -> std::io::Result<Body> {
    handover.take(body).await
}

async fn settle(handover: Handover, body: Body) -> std::io::Result<Body> {
    handover.settle(body).await
}

async fn put(receive: Receive, body: Body) -> std::io::Result<Body> {
    receive.put(body).await
}

async fn ids(held: Held, body: Body) -> std::io::Result<Body> {
    held.ids(body).await
}
