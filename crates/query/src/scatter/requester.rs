//! Sends a request to all nodes of a cluster, this one included.

use std::sync::Arc;

use bucksaw_env::{Body, BoxFuture};
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id};

use super::coverage::Coverage;
use super::peers::{QueryPeer, QueryPeers};
use super::reply::{NodeReply, ReplySet, ReplyTimeouts, ReplyTiming};
use super::request::ScatterRequest;
use super::server::QueryServer;
use crate::engine::Engine;
use crate::request::{Request, RequestError};
use crate::stats::NodeStats;

/// Receives hints of under-replicated records.
pub trait RepairHints: Send + Sync + std::fmt::Debug {
    /// Some of the records from `low` to `high`, both inclusive, are under-replicated. Called at most once per few thousand
    /// records of an answer; must not block.
    fn on_under_replicated(&self, low: Id, high: Id);
}

/// Queries all nodes of a cluster.
#[derive(Debug)]
pub struct Scatter {
    pub(super) server: Arc<QueryServer>,
    pub(super) peers: Arc<dyn QueryPeers>,
    pub(super) timing: ReplyTiming,
    pub(super) repair_hints: Option<Arc<dyn RepairHints>>,
}

impl Scatter {
    /// Queries this node and its peers.
    pub fn new(
        server: Arc<QueryServer>,
        timeouts: ReplyTimeouts,
        repair_hints: Option<Arc<dyn RepairHints>>,
    ) -> Arc<Self> {
        let (tasks, clock) = (Arc::clone(&server.tasks), Arc::clone(&server.engine.env.clock));
        let peers = Arc::clone(server.peers());
        Arc::new(Self { server, peers, timing: ReplyTiming { tasks, clock, timeouts }, repair_hints })
    }

    /// Whether this is the only node, so that its engine answers for the cluster.
    pub fn is_single_node(&self) -> bool {
        self.peers.remote_peers().is_empty()
            && !self.peers.is_joining()
            && self.peers.local_peer().duplicate_address.is_none()
    }

    /// The engine of this node.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.server.engine
    }

    pub(crate) fn check_request(&self, request: &Request) -> Result<(), RequestError> {
        self.engine().check_expression(&request.expr)?;
        // The other nodes must be able to parse the expression.
        let text = request.expr.to_string();
        let is_parsable = text.len() <= INPUT_BYTES_MAX && Expr::parse(text.as_bytes()).is_ok();
        if is_parsable { Ok(()) } else { Err(RequestError::ExpressionTooLong) }
    }

    /// The nodes, this one first.
    pub(super) fn nodes(&self) -> Vec<QueryPeer> {
        [self.peers.local_peer()].into_iter().chain(self.peers.remote_peers()).collect()
    }

    /// Sends a request to all live nodes. Returns the replies by node, this one first.
    pub(super) fn send_request(
        &self,
        name: &str,
        scatter_request: &ScatterRequest,
        request: &Request,
    ) -> Result<(ReplySet, Coverage), RequestError> {
        self.check_request(request)?;
        let nodes = self.nodes();
        let own = nodes.first().map(|peer| peer.node);
        let encoded = match self.engine().store.database_id().zip(own) {
            Some((database, own)) => scatter_request.clone().with_database_read_by(database, own).encode(),
            None => scatter_request.encode(),
        };
        let reply = |(at, peer): (usize, &QueryPeer)| {
            peer.is_live.then(|| self.call((at > 0).then_some(peer.node), name, &encoded))
        };
        let replies = ReplySet(nodes.iter().enumerate().map(reply).collect());
        Ok((replies, Coverage::new(nodes, self.peers.replication_factor(), self.peers.is_joining(), request)))
    }

    /// Starts a call of another node, or of this one.
    pub(super) fn call(&self, node: Option<Id>, name: &str, encoded: &[u8]) -> NodeReply {
        let body = Body::whole(encoded.to_vec());
        let call: BoxFuture<_> = match node {
            Some(node) => self.peers.call(node, name, body),
            None => {
                let (peers, server, name) = (Arc::clone(&self.peers), Arc::clone(&self.server), name.to_owned());
                Box::pin(async move {
                    peers.ready().await;
                    server.serve(&name, body).await
                })
            }
        };
        NodeReply::start(self.timing.clone(), self.timing.clock.uptime(), call)
    }

    /// Adds the missing nodes of an answer to the metrics.
    pub(super) fn count_missing(&self, nodes: &NodeStats) {
        self.engine().metrics.nodes_missing.inc_by(nodes.missing.len() as u64);
    }
}
