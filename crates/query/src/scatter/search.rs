//! Searches over all nodes: records in order, each once.

use std::sync::Arc;

use bucksaw_rpc::MalformedMessage;

use super::batch::{BatchSlice, RecordBatch};
use super::coverage::Coverage;
use super::division::Reassigned;
use super::merge::BatchMerge;
use super::reply::{ReplyMessage, ReplySet, invalid_reply};
use super::request::{ReplyStatus, ScatterRequest};
use super::requester::{RepairHints, Scatter, SentRequest};
use super::server::SEARCH;
use super::takeover::{Takeover, TakeoverReason};
use crate::request::{Request, RequestError};
use crate::stats::{MissingReason, QueryStats};

/// Memory for the batches of one search, from all nodes. Each node has one batch here and one in the network.
const BATCH_MEMORY_BYTES: usize = 4 << 20;

/// Approximate number of records returned at once.
const BATCH_RECORDS: usize = 2_048;

/// Approximate number of bytes returned at once.
const BATCH_BYTES: usize = 256 << 10;

/// A search over all nodes that runs as far as its reader reads. Dropping it ends the work on all nodes.
pub(crate) struct ScatterSearch {
    scatter: Arc<Scatter>,
    request: Request,
    scatter_request: ScatterRequest,
    replies: ReplySet,
    takeover: Takeover,
    merge: BatchMerge,
    coverage: Coverage,
    matched: u64,
    is_finished: bool,
    repair_hints: Option<Arc<dyn RepairHints>>,
}

impl Scatter {
    /// Starts a search over the records that all nodes hold now.
    pub(crate) fn search(self: &Arc<Self>, request: &Request) -> Result<ScatterSearch, RequestError> {
        let nodes = self.peers.remote_peers().len() + 1;
        let scatter_request =
            ScatterRequest::new(request).with_batch_bytes(BATCH_MEMORY_BYTES / nodes).with_attributes();
        let SentRequest { replies, coverage, takeover } = self.send_request(SEARCH, &scatter_request, request)?;
        let repair_hints = self.repair_hints.clone();
        let replication_factor = if repair_hints.is_some() { self.peers.replication_factor() } else { 0 };
        let mut merge = BatchMerge::new(request, replies.0.len(), replication_factor);
        let closed = replies.0.iter().enumerate().filter(|(_, reply)| reply.is_none());
        closed.for_each(|(node, _)| merge.close(node));
        if coverage.is_store_missing() {
            merge.stop_checking_replicas();
        }
        Ok(ScatterSearch {
            scatter: Arc::clone(self),
            request: request.clone(),
            scatter_request,
            replies,
            takeover,
            merge,
            coverage,
            matched: 0,
            is_finished: false,
            repair_hints,
        })
    }
}

impl ScatterSearch {
    /// Waits for the next records, in order; empty at the end. Dropping the future loses no record.
    pub(crate) async fn next(&mut self) -> Vec<BatchSlice> {
        loop {
            let slices = self.merge.next_slices(BATCH_RECORDS, BATCH_BYTES);
            if let (Some(hints), Some(range)) = (&self.repair_hints, self.merge.take_under_replicated()) {
                hints.on_under_replicated(range.low, range.high);
            }
            if !slices.is_empty() {
                self.matched += slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
                return slices;
            }
            let message = match self.merge.is_done() {
                true => None,
                false => self.replies.next(|node| self.merge.is_awaiting(node)).await,
            };
            let Some((node, message)) = message else {
                self.finish();
                return slices;
            };
            self.accept_message(node, message);
        }
    }

    /// The statistics so far; complete at the end.
    pub(crate) fn stats(&self) -> QueryStats {
        QueryStats { matched: self.matched, ..self.coverage.stats() }
    }

    fn accept_message(&mut self, node: usize, message: Result<ReplyMessage, MissingReason>) {
        let accepted = message.and_then(|message| match message {
            ReplyMessage::Head(status) | ReplyMessage::Progress(status) => {
                if let Some(division) = self.takeover.division() {
                    self.merge.set_divided(division.intervals());
                }
                self.check_share(node, &status);
                let position = status.position(self.merge.order);
                self.coverage.accept_status(node, status)?;
                self.merge.raise_floor(node, position);
                Ok(())
            }
            ReplyMessage::Batch(content) => {
                let batch = RecordBatch::decode(&content).map_err(invalid_reply)?;
                self.merge.push(node, batch).map_err(invalid_reply)
            }
            ReplyMessage::End(status) => {
                self.check_share(node, &status);
                self.close_node(node);
                self.coverage.accept_status(node, status)
            }
            ReplyMessage::Cells(_) | ReplyMessage::Streams(_) => {
                Err(invalid_reply(MalformedMessage("unexpected message: counted ids or streams")))
            }
        });
        if let Err(reason) = accepted {
            self.close_node(node);
            self.coverage.mark_missing(node, reason);
            if self.coverage.is_store_missing() {
                self.merge.stop_checking_replicas();
            }
            self.reassign_share(node, TakeoverReason::Failed);
        }
    }

    /// Asks other stores for the share of a node that does not do it, or that has found damage in it.
    fn check_share(&mut self, node: usize, status: &ReplyStatus) {
        if let Some(reason) = self.takeover.reason(node, status) {
            self.reassign_share(node, reason);
        }
    }

    /// Asks other stores for the records that were left to a node.
    fn reassign_share(&mut self, node: usize, reason: TakeoverReason) {
        let Some(reassigned) = self.takeover.replace(node, reason) else {
            return self.coverage.mark_share_missing();
        };
        for Reassigned { node, share, .. } in reassigned {
            let rest = self.merge.add_input(&self.request);
            let request = self.scatter_request.clone().within(rest.from, rest.to).with_share(Some(&share));
            self.replies.0.push(Some(self.scatter.call(self.coverage.address_of(node), SEARCH, &request.encode())));
            self.coverage.add_replacement(node);
        }
    }

    fn close_node(&mut self, node: usize) {
        self.merge.close(node);
        self.replies.close(node);
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_finished, true) {
            // Dropping the open replies ends the work of their nodes.
            self.replies = ReplySet::default();
            self.scatter.count_missing(&self.coverage.stats().nodes);
        }
    }
}
