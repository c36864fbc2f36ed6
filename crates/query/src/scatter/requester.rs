//! Sends a request to all nodes of a cluster, this one among them.

use std::sync::Arc;

use bucksaw_env::{Body, BoxFuture};
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id};

use super::coverage::Coverage;
use super::peers::{QueryPeer, QueryPeers};
use super::reply::{NodeReply, ReplyTimeouts, ReplyTiming};
use super::request::ScatterRequest;
use super::server::QueryServer;
use crate::engine::Engine;
use crate::request::{Request, RequestError};
use crate::stats::NodeStats;

/// Hears of records that should be restored.
pub trait RepairHints: Send + Sync + std::fmt::Debug {
    /// Some of the records from `low` to `high`, both among them, are in fewer stores than they should be. Called at most
    /// once for some thousand records of an answer; must not block.
    fn on_under_replicated(&self, low: Id, high: Id);
}

/// Asks all nodes of a cluster.
#[derive(Debug)]
pub struct Scatter {
    pub(super) server: Arc<QueryServer>,
    pub(super) peers: Arc<dyn QueryPeers>,
    pub(super) timing: ReplyTiming,
    pub(super) repair_hints: Option<Arc<dyn RepairHints>>,
}

impl Scatter {
    /// Asks this node and those that it knows. What stores lack is told to `repair`.
    #[must_use]
    pub fn new(
        server: Arc<QueryServer>,
        timeouts: ReplyTimeouts,
        repair_hints: Option<Arc<dyn RepairHints>>,
    ) -> Arc<Self> {
        let (tasks, clock) = (Arc::clone(server.tasks()), Arc::clone(&server.engine().env.clock));
        let peers = Arc::clone(server.peers());
        Arc::new(Self { server, peers, timing: ReplyTiming { tasks, clock, timeouts }, repair_hints })
    }

    /// Whether there is no other node, so that the engine's answer is that of the cluster.
    #[must_use]
    pub fn is_single_node(&self) -> bool {
        self.peers.remote_peers().is_empty()
            && !self.peers.is_joining()
            && self.peers.local_peer().duplicate_address.is_none()
    }

    /// The engine of this node.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        self.server.engine()
    }

    pub(crate) fn check_request(&self, request: &Request) -> Result<(), RequestError> {
        self.engine().check_expression(&request.expr)?;
        // What cannot be read back cannot be asked.
        let text = request.expr.to_string();
        let readable = text.len() <= INPUT_BYTES_MAX && Expr::parse(text.as_bytes()).is_ok();
        if readable { Ok(()) } else { Err(RequestError::ExpressionTooLong) }
    }

    /// The nodes, this one first.
    pub(super) fn nodes(&self) -> Vec<QueryPeer> {
        [self.peers.local_peer()].into_iter().chain(self.peers.remote_peers()).collect()
    }

    /// Asks all nodes that are there; by node, this one first.
    pub(super) fn send_request(
        &self,
        name: &str,
        scatter_request: &ScatterRequest,
        request: &Request,
    ) -> Result<(Vec<Option<NodeReply>>, Coverage), RequestError> {
        self.check_request(request)?;
        let (asked, question) = (self.timing.clock.uptime(), scatter_request.encode());
        let nodes = self.nodes();
        let source = |(at, peer): (usize, &QueryPeer)| {
            let call = peer.is_live.then(|| self.call((at > 0).then_some(peer.node), name, &question))?;
            Some(NodeReply::start(self.timing.clone(), asked, call))
        };
        let sources = nodes.iter().enumerate().map(source).collect();
        Ok((sources, Coverage::new(nodes, self.peers.replication_factor(), self.peers.is_joining(), request)))
    }

    /// Calls a node, or this one.
    pub(super) fn call(&self, node: Option<Id>, name: &str, question: &[u8]) -> BoxFuture<std::io::Result<Body>> {
        let body = Body::whole(question.to_vec());
        match node {
            Some(node) => self.peers.call(node, name, body),
            None => self.server.serve(name, body),
        }
    }

    /// Counts an answer's missing nodes.
    pub(super) fn count_missing(&self, nodes: &NodeStats) {
        self.engine().metrics.nodes_missing.inc_by(nodes.missing.len() as u64);
    }
}
