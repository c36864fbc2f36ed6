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
//! to a shelf elsewhere: a node counts as having answered only when it took its snapshot well within the time for which
//! queues show what they have handed over.
//! Invariant: an answer that was cut off is never taken for whole: it has no end message.

mod answer;
mod batch;
mod cells;
mod context;
mod counts;
mod coverage;
mod follow;
#[cfg(test)]
mod kept;
mod made_good;
mod merge;
mod message;
mod peers;
mod question;
mod serve;
mod source;

use std::sync::Arc;

use bucksaw_doors::{Body, Waiting, run};
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id, Millis};

pub use answer::Answer;
pub use batch::Stretch;
pub use context::GatheredContext;
pub use follow::{Follow, Followed};
pub use made_good::made_good;
pub use peers::{Gossiped, Peer, Peers};
pub use serve::Serving;
pub use source::Patience;

use crate::engine::Engine;
use crate::fields::{self, Fields, Gathered};
use crate::request::{Request, RequestError};
use crate::stats::{Nodes, Stats};
use coverage::Coverage;
use merge::Merge;
use question::Question;
use serve::SEARCH;
use source::{Source, Watch};

/// Memory for batches on their way, of one question, from all nodes together. Each has one here and some in the network.
const BATCHES_BYTES: usize = 4 << 20;

/// Hears of records that should be restored.
pub trait Repair: Send + Sync + std::fmt::Debug {
    /// Some of the records from `low` to `high`, both among them, are in fewer stores than they should be. Called at most
    /// once for some thousand records of an answer; must not block.
    fn wanted(&self, low: Id, high: Id);
}

/// Asks all nodes of a cluster.
#[derive(Debug)]
pub struct Scatter {
    serving: Arc<Serving>,
    peers: Arc<dyn Peers>,
    watch: Watch,
    repair: Option<Arc<dyn Repair>>,
}

impl Scatter {
    /// Asks this node and those that it knows. What stores lack is told to `repair`.
    #[must_use]
    pub fn new(serving: Arc<Serving>, patience: Patience, repair: Option<Arc<dyn Repair>>) -> Arc<Self> {
        let (tasks, clock) = (Arc::clone(serving.tasks()), Arc::clone(&serving.engine().doors.clock));
        let peers = Arc::clone(serving.peers());
        Arc::new(Self { serving, peers, watch: Watch { tasks, clock, patience }, repair })
    }

    /// Whether there is no other node, so that the engine's answer is that of the cluster.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.peers.others().is_empty() && !self.peers.is_awaiting() && self.peers.own().also_at.is_none()
    }

    /// The engine of this node.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        self.serving.engine()
    }

    /// Begins a search over what is there now.
    ///
    /// # Errors
    /// [`RequestError::Expression`], [`RequestError::Long`].
    pub fn search(self: &Arc<Self>, request: &Request) -> Result<Answer, RequestError> {
        let nodes = self.peers.others().len() + 1;
        let question = Question::new(request).with_batches_of(BATCHES_BYTES / nodes);
        let (sources, coverage) = self.ask(SEARCH, &question, request)?;
        let copies = if self.repair.is_some() { self.peers.copies() } else { 0 };
        let merge = Merge::new(request, sources.len(), copies);
        Ok(Answer::new(self, sources, merge, coverage))
    }

    /// The fields and labels of the newest matching records, with their commonest values: of the same records, and
    /// exactly as, one node with all of them would tell.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn fields(self: &Arc<Self>, request: Request) -> Result<(Fields, Stats), RequestError> {
        let request = fields::newest(self.engine(), request);
        let mut answer = self.search(&request)?;
        let mut gathered = Gathered::new(self.engine());
        loop {
            let records = answer.next().await;
            if records.is_empty() {
                let stats = answer.stats();
                return Ok((gathered.finish(&request, stats.matched), stats));
            }
            let gather = move || {
                records.iter().flat_map(Stretch::records).for_each(|record| gathered.add(record));
                gathered
            };
            gathered = run(&self.watch.tasks, gather).await.ok_or(RequestError::Cancelled)?;
        }
    }

    /// Begins an answer with the record `id` and those around it in its stream, oldest first, as [`Engine::context`] does.
    ///
    /// # Errors
    /// [`RequestError::NoRecord`] when there is none; [`RequestError::NotAllAnswered`] when a node may have it that did not
    /// answer.
    pub async fn context(self: &Arc<Self>, id: Id, before: u64, after: u64) -> Result<GatheredContext, RequestError> {
        GatheredContext::start(self, id, before, after).await
    }

    /// Follows the records that are accepted from now on, by any node.
    ///
    /// # Errors
    /// [`RequestError::Expression`], [`RequestError::Long`].
    pub fn tail(self: &Arc<Self>, expr: &Expr) -> Result<Follow, RequestError> {
        let request = Request::new(expr.clone(), Millis(0), Millis::MAX);
        self.check(&request)?;
        Ok(Follow::start(self, &request))
    }

    fn check(&self, request: &Request) -> Result<(), RequestError> {
        self.engine().check(&request.expr)?;
        // What cannot be read back cannot be asked.
        let text = request.expr.to_string();
        let readable = text.len() <= INPUT_BYTES_MAX && Expr::parse(text.as_bytes()).is_ok();
        if readable { Ok(()) } else { Err(RequestError::Long) }
    }

    /// The nodes, this one first.
    fn nodes(&self) -> Vec<Peer> {
        [self.peers.own()].into_iter().chain(self.peers.others()).collect()
    }

    /// Asks all nodes that are there; by node, this one first.
    fn ask(
        &self,
        name: &str,
        question: &Question,
        request: &Request,
    ) -> Result<(Vec<Option<Source>>, Coverage), RequestError> {
        self.check(request)?;
        let (asked, question) = (self.watch.clock.uptime(), question.encode());
        let nodes = self.nodes();
        let source = |(at, peer): (usize, &Peer)| {
            let call = peer.live.then(|| self.call((at > 0).then_some(peer.node), name, &question))?;
            Some(Source::ask(self.watch.clone(), asked, call))
        };
        let sources = nodes.iter().enumerate().map(source).collect();
        Ok((sources, Coverage::new(nodes, self.peers.copies(), self.peers.is_awaiting(), request)))
    }

    /// Calls a node, or this one.
    fn call(&self, node: Option<Id>, name: &str, question: &[u8]) -> Waiting<std::io::Result<Body>> {
        let body = Body::whole(question.to_vec());
        match node {
            Some(node) => self.peers.call(node, name, body),
            None => self.serving.answer(name, body),
        }
    }

    /// Counts an answer's missing nodes.
    fn note(&self, nodes: &Nodes) {
        self.engine().metrics.nodes_missing.inc_by(nodes.missing.len() as u64);
    }
}

/// Reads bytes as each of the forms in which other nodes' bytes come in: for a fuzzer.
#[doc(hidden)]
pub fn read_anything(bytes: &[u8]) {
    let mut messages = message::Messages::default();
    messages.push(bytes);
    while let Ok(Some(_)) = messages.next() {}
    let _ = Question::decode(bytes).map(|question| question.request());
    let _ = question::Told::decode(bytes);
    let _ = cells::decode(bytes, 1_000);
    if let Ok(batch) = batch::Batch::decode(&bytes.to_vec().into()) {
        let batch = Arc::new(batch);
        let all = Stretch::new(&batch, 0, batch.len());
        assert_eq!(all.records().count(), batch.len(), "each record that was let in can be shown");
        let mut shown = 0;
        all.show_runs(&mut |run| shown += run.records);
        assert_eq!(shown, batch.len(), "also in runs");
    }
}

#[cfg(test)]
mod tests;
