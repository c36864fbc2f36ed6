//! The calls of other nodes that a node answers.

use std::sync::Arc;

use bucksaw_env::Body;
use bucksaw_ingest::lease::{self, LeaseServer};
use bucksaw_store::PUT;
use bucksaw_store::erasure::{ERASURE_REPORT, ERASURES};
use bucksaw_store::repair::{HELD_IDS, PASS_STATUS};

use crate::node::Node;

/// Registers a method of a cloneable server as the handler of a call.
macro_rules! add_call {
    ($router:ident, $name:path, $server:expr, $method:ident) => {
        let server = $server.clone();
        $router.add($name, move |body: Body| {
            let server = server.clone();
            async move { server.$method(body).await }
        });
    };
}

/// Registers the calls: queries, leases of the queue, erasures, and with the store role replicas and repair.
pub(crate) fn register(node: &Node) {
    let router = node.cluster.router();
    node.query_server.register(&router);
    let leases = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    add_call!(router, lease::WAIT, leases, wait);
    add_call!(router, lease::FETCH, leases, fetch);
    add_call!(router, lease::ACK, leases, ack);
    add_call!(router, ERASURES, node.erasures, answer_exchange);
    add_call!(router, ERASURE_REPORT, node.erasures, answer_report);
    if let (Some(repair), Some(replication)) = (&node.repair, &node.replication) {
        add_call!(router, PUT, replication, answer_put);
        add_call!(router, HELD_IDS, replication, answer_held_ids);
        add_call!(router, PASS_STATUS, repair, answer_pass_status);
    }
}
