//! Counts over all nodes: each node sends the ids of its matches by cell, and each id counts once.
//!
//! Nodes send ids in order of time and report their progress, so the ids of a bucket are dropped when all nodes are past
//! it. While ids take much memory, nodes that are ahead of the others wait.

use std::sync::Arc;

use bucksaw_rpc::MalformedMessage;

use super::cells;
use super::coverage::Coverage;
use super::division::Reassigned;
use super::reply::{ReplyMessage, ReplySet, invalid_reply};
use super::request::{ReplyStatus, ScatterRequest};
use super::requester::{Scatter, SentRequest};
use super::server::COUNT;
use super::takeover::{Takeover, TakeoverReason};
use crate::count::{BucketGrid, Bucketing, CountTotal, Histogram, PROGRESS_INTERVAL};
use crate::request::{Request, RequestError};
use crate::stats::{MissingReason, QueryStats};

/// Part of the memory of queries beyond whose ids nodes that are ahead wait.
const AHEAD_MEMORY_DIVISOR: u64 = 4;

#[derive(Default)]
struct NodeCount {
    /// The node sends nothing further for buckets before this.
    buckets_done: usize,
    fraction_done: f64,
}

struct ScatterCount {
    scatter: Arc<Scatter>,
    scatter_request: ScatterRequest,
    replies: ReplySet,
    takeover: Takeover,
    nodes: Vec<NodeCount>,
    coverage: Coverage,
    grid: BucketGrid,
    total: CountTotal,
    /// The minimum over all nodes.
    buckets_done: usize,
    /// Bytes of ids beyond which nodes that are ahead wait.
    ahead_bytes_max: usize,
}

impl Scatter {
    /// As [`Answers::histogram`](crate::Answers::histogram), over the records of all nodes.
    pub(crate) async fn histogram(
        self: &Arc<Self>,
        request: &Request,
        bucketing: Bucketing,
        on_progress: &mut (dyn FnMut(&Histogram, f64) + Send),
    ) -> Result<(Histogram, QueryStats), RequestError> {
        let grid = BucketGrid::new(request, &bucketing);
        let scatter_request = ScatterRequest::new(request).with_bucketing(bucketing);
        let SentRequest { replies, coverage, takeover } = self.send_request(COUNT, &scatter_request, request)?;
        let ahead_bytes_max = self.engine().config.result_bytes_max / AHEAD_MEMORY_DIVISOR;
        let mut count = ScatterCount {
            nodes: replies.0.iter().map(|_| NodeCount::default()).collect(),
            scatter: Arc::clone(self),
            scatter_request,
            replies,
            takeover,
            coverage,
            grid,
            total: CountTotal::new(grid, self.engine()),
            buckets_done: 0,
            ahead_bytes_max: usize::try_from(ahead_bytes_max).unwrap_or(usize::MAX),
        };
        let clock = &self.timing.clock;
        let mut reported = clock.uptime();
        while let Some((node, message)) = count.next_message().await {
            count.accept_message(node, message);
            let now = clock.uptime();
            if now - reported >= PROGRESS_INTERVAL {
                reported = now;
                on_progress(&count.total.histogram(request), count.fraction_done());
            }
        }
        let stats = QueryStats { matched: count.total.sum(), ..count.coverage.stats() };
        self.count_missing(&stats.nodes);
        Ok((count.total.histogram(request), stats))
    }
}

impl ScatterCount {
    /// Waits for the next message; while ids take much memory, not for one of a node that is ahead.
    async fn next_message(&mut self) -> Option<(usize, Result<ReplyMessage, MissingReason>)> {
        let Self { replies, nodes, buckets_done, .. } = self;
        let is_memory_short = self.total.id_bytes > self.ahead_bytes_max;
        let is_ahead = |node: usize| nodes.get(node).is_some_and(|node| node.buckets_done > *buckets_done);
        replies.next(|node| !(is_memory_short && is_ahead(node))).await
    }

    fn accept_message(&mut self, number: usize, message: Result<ReplyMessage, MissingReason>) {
        let accepted = message.and_then(|message| match message {
            ReplyMessage::Head(status) | ReplyMessage::Progress(status) => {
                self.check_share(number, &status);
                if let Some(node) = self.nodes.get_mut(number) {
                    node.accept_progress(&status, self.grid.buckets);
                }
                self.coverage.accept_status(number, status)
            }
            ReplyMessage::Cells(content) => self.add_cells(number, &content),
            ReplyMessage::End(status) => {
                self.check_share(number, &status);
                self.replies.close(number);
                self.coverage.accept_status(number, status)
            }
            ReplyMessage::Batch(_) | ReplyMessage::Streams(_) => {
                Err(invalid_reply(MalformedMessage("unexpected message: records or streams")))
            }
        });
        if let Err(reason) = accepted {
            self.replies.close(number);
            self.coverage.mark_missing(number, reason);
            self.reassign_share(number, TakeoverReason::Failed);
        }
        let open = self.nodes.iter().enumerate().filter(|(number, _)| self.replies.is_open(*number));
        let buckets_done = open.map(|(_, node)| node.buckets_done).min().unwrap_or(self.grid.buckets);
        if buckets_done > self.buckets_done {
            self.buckets_done = buckets_done;
            self.total.discard_before(buckets_done);
        }
    }

    fn add_cells(&mut self, number: usize, content: &[u8]) -> Result<(), MissingReason> {
        let mut cells = cells::decode(content, self.grid.cells()).map_err(invalid_reply)?;
        if self.takeover.is_replacement(number) {
            // All nodes have sent these, and their ids are no longer known.
            let counted = self.buckets_done * self.grid.bucket_cells;
            cells.retain(|((cell, _), _)| *cell >= counted);
        }
        let buckets_done = self.nodes.get(number).map_or(0, |node| node.buckets_done);
        if cells.iter().any(|((cell, _), _)| *cell < buckets_done * self.grid.bucket_cells) {
            return Err(invalid_reply(MalformedMessage("counted ids for a bucket already completed")));
        }
        self.total.add_ids(cells);
        Ok(())
    }

    /// Asks other stores for the share of a node that does not do it, or that has found damage in it.
    fn check_share(&mut self, number: usize, status: &ReplyStatus) {
        if let Some(reason) = self.takeover.reason(number, status) {
            self.reassign_share(number, reason);
        }
    }

    /// Asks other stores for the records that were left to a node.
    fn reassign_share(&mut self, number: usize, reason: TakeoverReason) {
        let Some(reassigned) = self.takeover.replace(number, reason) else {
            return self.coverage.mark_share_missing();
        };
        for Reassigned { node, share, .. } in reassigned {
            let request = self.scatter_request.clone().with_share(Some(&share));
            self.replies.0.push(Some(self.scatter.call(self.coverage.address_of(node), COUNT, &request.encode())));
            self.nodes.push(NodeCount::default());
            self.coverage.add_replacement(node);
        }
    }

    /// The mean over all nodes.
    fn fraction_done(&self) -> f64 {
        let done = |(number, node): (usize, &NodeCount)| {
            if self.replies.is_open(number) { node.fraction_done } else { 1.0 }
        };
        self.nodes.iter().enumerate().map(done).sum::<f64>() / self.nodes.len().max(1) as f64
    }
}

impl NodeCount {
    fn accept_progress(&mut self, status: &ReplyStatus, buckets: usize) {
        let buckets_done = usize::try_from(status.buckets_done).unwrap_or(usize::MAX);
        self.buckets_done = self.buckets_done.max(buckets_done.min(buckets));
        self.fraction_done = self.fraction_done.max(status.done.clamp(0.0, 1.0));
    }
}
