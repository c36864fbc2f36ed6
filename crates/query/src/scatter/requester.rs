//! Sends a request to all nodes of a cluster, this one included.

use std::io;
use std::sync::Arc;

use bucksaw_env::{Body, BoxFuture};
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id};

use super::coverage::Coverage;
use super::peers::{QueryPeer, QueryPeers};
use super::pending_division::PendingDivision;
use super::reply::{NodeReply, ReplySet, ReplyTimeouts, ReplyTiming};
use super::request::ScatterRequest;
use super::server::{COUNT, QueryServer, SEARCH};
use super::takeover::Takeover;
use crate::engine::Engine;
use crate::request::{Request, RequestError};
use crate::stats::NodeStats;

/// Receives hints of under-replicated records.
pub trait RepairHints: Send + Sync + std::fmt::Debug {
    /// Some of the records from `low` to `high`, both inclusive, are under-replicated. Called at most once per few thousand
    /// records of an answer; must not block.
    fn on_under_replicated(&self, low: Id, high: Id);
}

/// A request that was sent to all nodes.
pub(super) struct SentRequest {
    pub(super) replies: ReplySet,
    pub(super) coverage: Coverage,
    pub(super) takeover: Takeover,
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
    ) -> Result<SentRequest, RequestError> {
        self.check_request(request)?;
        let nodes = self.nodes();
        let own = nodes.first().map(|peer| peer.node);
        let scatter_request = match self.engine().store.database_id().zip(own) {
            Some((database, own)) => scatter_request.clone().with_database_read_by(database, own),
            None => scatter_request.clone(),
        };
        let is_divided = matches!(name, SEARCH | COUNT) && self.has_replicas(&nodes);
        let ids = (request.from, request.to);
        let division = is_divided.then(|| Arc::new(PendingDivision::new(Arc::clone(&self.server), nodes.clone(), ids)));
        let reply = |(at, peer): (usize, &QueryPeer)| {
            let node = (at > 0).then_some(peer.node);
            peer.is_live.then(|| match &division {
                Some(division) => self.call_divided(node, name, scatter_request.clone(), (Arc::clone(division), at)),
                None => self.call(node, name, &scatter_request.encode()),
            })
        };
        let replies = ReplySet(nodes.iter().enumerate().map(reply).collect());
        let takeover = Takeover::new(nodes.len(), division);
        let coverage = Coverage::new(nodes, self.peers.replication_factor(), self.peers.is_joining(), request);
        Ok(SentRequest { replies, coverage, takeover })
    }

    /// Whether several of the nodes may hold the same stored records.
    fn has_replicas(&self, nodes: &[QueryPeer]) -> bool {
        let stores = nodes.iter().filter(|peer| peer.is_live && peer.is_store).count();
        stores > 1 && self.peers.replication_factor() > 1
    }

    /// Starts a call of another node, or of this one.
    pub(super) fn call(&self, node: Option<Id>, name: &str, encoded: &[u8]) -> NodeReply {
        let call = self.caller(node, name)(encoded.to_vec());
        NodeReply::start(self.timing.clone(), self.timing.clock.uptime(), call)
    }

    /// The same with the share of the node, once the request is divided.
    fn call_divided(
        &self,
        node: Option<Id>,
        name: &str,
        scatter_request: ScatterRequest,
        (division, number): (Arc<PendingDivision>, usize),
    ) -> NodeReply {
        let caller = self.caller(node, name);
        let call = Box::pin(async move {
            let share = division.get().await.share_of(number);
            caller(scatter_request.with_share(share.as_ref()).encode()).await
        });
        NodeReply::start(self.timing.clone(), self.timing.clock.uptime(), call)
    }

    /// Calls a node with an encoded request.
    fn caller(
        &self,
        node: Option<Id>,
        name: &str,
    ) -> impl FnOnce(Vec<u8>) -> BoxFuture<io::Result<Body>> + Send + 'static {
        let (peers, server, name) = (Arc::clone(&self.peers), Arc::clone(&self.server), name.to_owned());
        move |encoded| match node {
            Some(node) => peers.call(node, &name, Body::whole(encoded)),
            None => Box::pin(async move {
                peers.ready().await;
                server.serve(&name, Body::whole(encoded)).await
            }),
        }
    }

    /// Adds the missing nodes of an answer to the metrics.
    pub(super) fn count_missing(&self, nodes: &NodeStats) {
        self.engine().metrics.nodes_missing.inc_by(nodes.missing.len() as u64);
    }
}
