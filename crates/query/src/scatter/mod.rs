//! Questions over a whole cluster: whichever node is asked, the answer is that of all.
//!
//! ```text
//!   Scatter ── asks all nodes at once, this one among them ──► Serving on each: snapshot, head, then what it finds
//!           ◄── streams of messages, merged by id, equal ids dropped; stops at the limit, which ends the others' work ──
//! ```
//! Records come from `query/search`, in order; fields and context are made of them here. Counts come from `query/count` as
//! bitmaps of ids, new records from `query/tail`. A node that is alone does not ask itself in this way, but its
//! [`Engine`](crate::Engine) directly ([`Scatter::is_alone`]).
//!
//! Nodes that do not answer in time ([`Patience`]) are left out, and told of: in [`Stats::nodes`](crate::Stats), with why,
//! and whether records may be missing for it. Asking a second node for what a slow one has (hedging) would be of no use:
//! no two nodes hold the same records, and each is asked anyway.
//!
//! Invariant: a record that was accepted before the question is in a complete answer once, also while it moves from a queue
//! to a store elsewhere: a node counts as having answered only when it took its snapshot well within the time for which
//! queues show what they have handed over.
//! Invariant: an answer that was cut off is never taken for whole: it has no end message.

mod batch;
mod cells;
mod context;
mod count;
mod coverage;
#[cfg(test)]
mod golden;
mod merge;
mod message;
mod peers;
mod re_replicated;
mod reply;
mod request;
mod search;
mod server;
mod tail;

use std::sync::Arc;

use bucksaw_env::{Body, BoxFuture, run_blocking};
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id, Millis};

pub use batch::BatchSlice;
pub use context::ScatterContext;
pub use peers::{GossipPeers, QueryPeer, QueryPeers};
pub use re_replicated::re_replicated_stores;
pub use reply::ReplyTimeouts;
pub use search::ScatterSearch;
pub use server::QueryServer;
pub use tail::{ScatterTail, TailEvent};

use crate::engine::Engine;
use crate::fields::{self, FieldCollector, Fields};
use crate::request::{Request, RequestError};
use crate::stats::{NodeStats, QueryStats};
use coverage::Coverage;
use merge::BatchMerge;
use reply::{NodeReply, ReplyTiming};
use request::ScatterRequest;
use server::SEARCH;

/// Memory for batches on their way, of one question, from all nodes together. Each has one here and some in the network.
const BATCH_MEMORY_BYTES: usize = 4 << 20;

/// Hears of records that should be restored.
pub trait RepairHints: Send + Sync + std::fmt::Debug {
    /// Some of the records from `low` to `high`, both among them, are in fewer stores than they should be. Called at most
    /// once for some thousand records of an answer; must not block.
    fn on_under_replicated(&self, low: Id, high: Id);
}

/// Asks all nodes of a cluster.
#[derive(Debug)]
pub struct Scatter {
    server: Arc<QueryServer>,
    peers: Arc<dyn QueryPeers>,
    timing: ReplyTiming,
    repair_hints: Option<Arc<dyn RepairHints>>,
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

    /// Begins a search over what is there now.
    ///
    /// # Errors
    /// [`RequestError::Expression`], [`RequestError::Long`].
    pub fn search(self: &Arc<Self>, request: &Request) -> Result<ScatterSearch, RequestError> {
        let nodes = self.peers.remote_peers().len() + 1;
        let question = ScatterRequest::new(request).with_batch_bytes(BATCH_MEMORY_BYTES / nodes);
        let (sources, coverage) = self.send_request(SEARCH, &question, request)?;
        let copies = if self.repair_hints.is_some() { self.peers.replication_factor() } else { 0 };
        let merge = BatchMerge::new(request, sources.len(), copies);
        Ok(ScatterSearch::new(self, sources, merge, coverage))
    }

    /// The fields and labels of the newest matching records, with their commonest values: of the same records, and
    /// exactly as, one node with all of them would tell.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn fields(self: &Arc<Self>, request: Request) -> Result<(Fields, QueryStats), RequestError> {
        let request = fields::newest_records_request(self.engine(), request);
        let mut answer = self.search(&request)?;
        let mut gathered = FieldCollector::new(self.engine());
        loop {
            let records = answer.next().await;
            if records.is_empty() {
                let stats = answer.stats();
                return Ok((gathered.finish(&request, stats.matched), stats));
            }
            let gather = move || {
                records.iter().flat_map(BatchSlice::records).for_each(|record| gathered.add(record));
                gathered
            };
            gathered = run_blocking(&self.timing.tasks, gather).await.ok_or(RequestError::Cancelled)?;
        }
    }

    /// Begins an answer with the record `id` and those around it in its stream, oldest first, as [`Engine::context`] does.
    ///
    /// # Errors
    /// [`RequestError::NoRecord`] when there is none; [`RequestError::NotAllAnswered`] when a node may have it that did not
    /// answer.
    pub async fn context(self: &Arc<Self>, id: Id, before: u64, after: u64) -> Result<ScatterContext, RequestError> {
        ScatterContext::start(self, id, before, after).await
    }

    /// Follows the records that are accepted from now on, by any node.
    ///
    /// # Errors
    /// [`RequestError::Expression`], [`RequestError::Long`].
    pub fn tail(self: &Arc<Self>, expr: &Expr) -> Result<ScatterTail, RequestError> {
        let request = Request::new(expr.clone(), Millis(0), Millis::MAX);
        self.check_request(&request)?;
        Ok(ScatterTail::start(self, &request))
    }

    fn check_request(&self, request: &Request) -> Result<(), RequestError> {
        self.engine().check_expression(&request.expr)?;
        // What cannot be read back cannot be asked.
        let text = request.expr.to_string();
        let readable = text.len() <= INPUT_BYTES_MAX && Expr::parse(text.as_bytes()).is_ok();
        if readable { Ok(()) } else { Err(RequestError::ExpressionTooLong) }
    }

    /// The nodes, this one first.
    fn nodes(&self) -> Vec<QueryPeer> {
        [self.peers.local_peer()].into_iter().chain(self.peers.remote_peers()).collect()
    }

    /// Asks all nodes that are there; by node, this one first.
    fn send_request(
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
    fn call(&self, node: Option<Id>, name: &str, question: &[u8]) -> BoxFuture<std::io::Result<Body>> {
        let body = Body::whole(question.to_vec());
        match node {
            Some(node) => self.peers.call(node, name, body),
            None => self.server.serve(name, body),
        }
    }

    /// Counts an answer's missing nodes.
    fn count_missing(&self, nodes: &NodeStats) {
        self.engine().metrics.nodes_missing.inc_by(nodes.missing.len() as u64);
    }
}

/// Reads bytes as each of the forms in which other nodes' bytes come in: for a fuzzer.
#[doc(hidden)]
pub fn decode_all_formats(bytes: &[u8]) {
    let mut messages = bucksaw_rpc::MessageReader::default();
    messages.push(bytes);
    while let Ok(Some(_)) = messages.next_message::<message::MessageKind>() {}
    let _ = ScatterRequest::decode(bytes).map(|question| question.request());
    let _ = request::ReplyStatus::decode(bytes);
    let _ = cells::decode(bytes, 1_000);
    if let Ok(batch) = batch::RecordBatch::decode(&bytes.to_vec().into()) {
        let batch = Arc::new(batch);
        let all = BatchSlice::new(&batch, 0, batch.len());
        assert_eq!(all.records().count(), batch.len(), "each record that was let in can be shown");
        let mut shown = 0;
        all.visit_runs(&mut |run| shown += run.records);
        assert_eq!(shown, batch.len(), "also in runs");
    }
}

#[cfg(test)]
mod tests;
