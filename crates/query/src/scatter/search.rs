//! The records of a whole cluster, in order, each once.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bucksaw_rpc::MalformedMessage;

use super::batch::{BatchSlice, RecordBatch};
use super::coverage::Coverage;
use super::merge::BatchMerge;
use super::reply::{NodeReply, ReplyMessage, invalid_reply};
use super::request::{ReplyStatus, ScatterRequest};
use super::requester::{RepairHints, Scatter};
use super::server::SEARCH;
use crate::request::{Request, RequestError};
use crate::stats::{MissingReason, QueryStats};

/// Memory for batches on their way, of one question, from all nodes together. Each has one here and some in the network.
const BATCH_MEMORY_BYTES: usize = 4 << 20;

/// Records that are handed out at a time, about.
const BATCH_RECORDS: usize = 2_048;

/// Bytes that are handed out at a time, about.
const BATCH_BYTES: usize = 256 << 10;

/// An answer that comes as it is asked for. Dropping it ends the work on all nodes.
pub struct ScatterSearch {
    scatter: Arc<Scatter>,
    /// By node; `None` when it has come to its end.
    replies: Vec<Option<NodeReply>>,
    merge: BatchMerge,
    coverage: Coverage,
    /// What each node told last.
    statuses: Vec<ReplyStatus>,
    matched: u64,
    is_finished: bool,
    repair_hints: Option<Arc<dyn RepairHints>>,
}

impl std::fmt::Debug for ScatterSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("coverage", &self.coverage)
            .field("matched", &self.matched)
            .finish_non_exhaustive()
    }
}

impl Scatter {
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
}

impl ScatterSearch {
    fn new(scatter: &Arc<Scatter>, sources: Vec<Option<NodeReply>>, mut merge: BatchMerge, coverage: Coverage) -> Self {
        let closed = sources.iter().enumerate().filter(|(_, source)| source.is_none());
        closed.for_each(|(node, _)| merge.close(node));
        if coverage.is_store_missing() {
            merge.stop_checking_replicas();
        }
        let told = vec![ReplyStatus::default(); sources.len()];
        let repair = scatter.repair_hints.clone();
        Self {
            scatter: Arc::clone(scatter),
            replies: sources,
            merge,
            coverage,
            statuses: told,
            matched: 0,
            is_finished: false,
            repair_hints: repair,
        }
    }

    /// The next records, in order; empty at the end. Waits for the first of them, not for many. When this is dropped
    /// before it is done, nothing is lost.
    pub async fn next(&mut self) -> Vec<BatchSlice> {
        loop {
            let out = self.merge.next_slices(BATCH_RECORDS, BATCH_BYTES);
            if let (Some(repair), Some(thin)) = (&self.repair_hints, self.merge.take_under_replicated()) {
                repair.on_under_replicated(thin.low, thin.high);
            }
            if !out.is_empty() {
                self.matched += out.iter().map(|stretch| stretch.len() as u64).sum::<u64>();
                return out;
            }
            if self.merge.is_done() {
                self.finish();
                return out;
            }
            let (node, heard) = self.next_message().await;
            self.accept_message(node, heard);
        }
    }

    /// What the answer rests on so far; complete when [`Self::next`] had none.
    #[must_use]
    pub fn stats(&self) -> QueryStats {
        let mut stats = QueryStats { matched: self.matched, nodes: self.coverage.stats(), ..QueryStats::default() };
        for (node, told) in self.statuses.iter().enumerate() {
            told.add_to(&mut stats, &self.coverage.node_label(node));
        }
        stats
    }

    /// The next message of a node that must say something before the answer goes on.
    async fn next_message(&mut self) -> (usize, Result<ReplyMessage, MissingReason>) {
        let (sources, merge) = (&mut self.replies, &self.merge);
        poll_fn(|context| {
            for node in merge.awaited_nodes() {
                if let Some(Some(source)) = sources.get_mut(node)
                    && let Poll::Ready(heard) = source.poll_next(context)
                {
                    return Poll::Ready((node, heard));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn accept_message(&mut self, node: usize, heard: Result<ReplyMessage, MissingReason>) {
        let taken = heard.and_then(|heard| match heard {
            ReplyMessage::Head(told) | ReplyMessage::Progress(told) => {
                self.coverage.check_status(node, &told)?;
                self.merge.raise_floor(node, told.position(self.merge.order()));
                self.set_status(node, told);
                Ok(())
            }
            ReplyMessage::Batch(content) => {
                let batch = RecordBatch::decode(&content).map_err(invalid_reply)?;
                self.merge.push(node, batch).map_err(invalid_reply)
            }
            ReplyMessage::End(told) => {
                self.set_status(node, told);
                self.close_node(node);
                Ok(())
            }
            ReplyMessage::Cells(_) => Err(invalid_reply(MalformedMessage("unexpected message: counted ids"))),
        });
        if let Err(why) = taken {
            self.coverage.mark_missing(node, why);
            if self.coverage.is_store_missing() {
                self.merge.stop_checking_replicas();
            }
            self.close_node(node);
        }
    }

    fn set_status(&mut self, node: usize, told: ReplyStatus) {
        if let Some(last) = self.statuses.get_mut(node).filter(|_| !told.is_keepalive()) {
            *last = told;
        }
    }

    fn close_node(&mut self, node: usize) {
        self.merge.close(node);
        if let Some(source) = self.replies.get_mut(node) {
            *source = None;
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            // The others are not needed any more: that ends their work.
            self.replies.iter_mut().for_each(|source| *source = None);
            self.scatter.count_missing(&self.coverage.stats());
        }
    }
}
