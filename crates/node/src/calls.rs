//! The calls of other nodes that a node answers.

use std::io;
use std::sync::Arc;

use bucksaw_env::Body;
use bucksaw_ingest::lease::{self, LeaseServer};
use bucksaw_store::repair::{HELD_IDS, PASS_STATUS, Repair};
use bucksaw_store::{PUT, Replication};

use crate::node::Node;

/// Registers the calls: queries, leases of the queue, and with the store role replicas and repair.
pub(crate) fn register(node: &Node) {
    let router = node.cluster.router();
    node.query_server.register(&router);
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let leases = server.clone();
    router.add(lease::WAIT, move |body: Body| answer_wait(leases.clone(), body));
    let leases = server.clone();
    router.add(lease::FETCH, move |body: Body| answer_fetch(leases.clone(), body));
    router.add(lease::ACK, move |body: Body| answer_ack(server.clone(), body));
    if let (Some(repair), Some(replication)) = (node.repair.clone(), node.replication.clone()) {
        let receiver = replication.clone();
        router.add(PUT, move |body: Body| answer_put(receiver.clone(), body));
        router.add(HELD_IDS, move |body: Body| answer_held_ids(replication.clone(), body));
        router.add(PASS_STATUS, move |body: Body| answer_pass_status(Arc::clone(&repair), body));
    }
}

async fn answer_wait(leases: LeaseServer, body: Body) -> io::Result<Body> {
    leases.wait(body).await
}

async fn answer_fetch(leases: LeaseServer, body: Body) -> io::Result<Body> {
    leases.fetch(body).await
}

async fn answer_ack(leases: LeaseServer, body: Body) -> io::Result<Body> {
    leases.ack(body).await
}

async fn answer_put(replication: Replication, body: Body) -> io::Result<Body> {
    replication.answer_put(body).await
}

async fn answer_held_ids(replication: Replication, body: Body) -> io::Result<Body> {
    replication.answer_held_ids(body).await
}

async fn answer_pass_status(repair: Arc<Repair>, body: Body) -> io::Result<Body> {
    repair.answer_pass_status(body).await
}
