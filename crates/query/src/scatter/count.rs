//! Counts over a whole cluster: each node gives the ids of its matches by cell, and each id counts once.
//!
//! Nodes give them in the order of time and tell how far they have come, so the ids of a stretch of time are forgotten as
//! soon as all nodes are past it. A node that is far ahead of the others is left waiting when the ids take much memory.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::cells;
use super::coverage::Coverage;
use super::reply::{NodeReply, ReplyMessage, invalid_reply};
use super::request::{ReplyStatus, ScatterRequest};
use super::requester::Scatter;
use super::server::COUNT;
use crate::count::{BucketGrid, Bucketing, CountTotal, Histogram};
use crate::request::{Request, RequestError};
use crate::stats::{MissingReason, QueryStats};
use bucksaw_rpc::MalformedMessage;

/// How often who waits for a histogram is shown how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Stretches of a mere count, which bound the ids that are kept at a time.
const COUNT_BUCKETS: usize = 64;

/// Of the memory of queries, the part for ids beyond which nodes that are ahead wait for the others.
const AHEAD_MEMORY_DIVISOR: u64 = 4;

#[derive(Default)]
struct NodeCount {
    reply: Option<NodeReply>,
    status: ReplyStatus,
    /// Stretches that it will bring nothing more for.
    buckets_done: usize,
    fraction_done: f64,
}

struct ScatterCount {
    nodes: Vec<NodeCount>,
    coverage: Coverage,
    grid: BucketGrid,
    total: CountTotal,
    /// Stretches that all are past.
    buckets_done: usize,
    /// Memory for ids beyond which nodes that are ahead wait for the others.
    ahead_bytes_max: usize,
}

impl Scatter {
    /// The exact number of different records that match.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn count(self: &Arc<Self>, request: &Request) -> Result<(u64, QueryStats), RequestError> {
        let division = Bucketing { buckets: COUNT_BUCKETS, by_level: false };
        let (_, stats) = self.histogram(request, division, &mut |_, _| {}).await?;
        Ok((stats.matched, stats))
    }

    /// The exact number of different records that match, by equal stretches of the request's time. While it is being
    /// counted, `see` is shown some times a second what was counted so far, the oldest first, and which part of the work
    /// is done.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn histogram(
        self: &Arc<Self>,
        request: &Request,
        division: Bucketing,
        on_progress: &mut (dyn FnMut(&Histogram, f64) + Send),
    ) -> Result<(Histogram, QueryStats), RequestError> {
        let question = ScatterRequest::new(request).with_bucketing(division);
        let (sources, coverage) = self.send_request(COUNT, &question, request)?;
        let grid = BucketGrid::new(request, division);
        let total = CountTotal::new(grid, self.server.engine().result_budget.account().force_reserve(0));
        let lanes = sources.into_iter().map(|source| NodeCount { reply: source, ..NodeCount::default() }).collect();
        let ahead_bytes_max =
            usize::try_from(self.engine().config.result_bytes_max / AHEAD_MEMORY_DIVISOR).unwrap_or(usize::MAX);
        let mut counts = ScatterCount { nodes: lanes, coverage, grid, total, buckets_done: 0, ahead_bytes_max };
        let clock = &self.timing.clock;
        let mut shown = clock.uptime();
        while let Some((node, heard)) = counts.next_message().await {
            counts.accept_message(node, heard);
            let now = clock.uptime();
            if now - shown >= PROGRESS_INTERVAL {
                shown = now;
                on_progress(&counts.total.histogram(request), counts.fraction_done());
            }
        }
        let nodes = counts.coverage.stats();
        self.count_missing(&nodes);
        let mut stats = QueryStats { matched: counts.total.sum(), nodes, ..QueryStats::default() };
        for (node, lane) in counts.nodes.iter().enumerate() {
            lane.status.add_to(&mut stats, &counts.coverage.node_label(node));
        }
        Ok((counts.total.histogram(request), stats))
    }
}

impl ScatterCount {
    /// The next message of a node; `None` when all have come to their end.
    async fn next_message(&mut self) -> Option<(usize, Result<ReplyMessage, MissingReason>)> {
        if self.nodes.iter().all(|lane| lane.reply.is_none()) {
            return None;
        }
        let crowded = self.total.id_bytes() > self.ahead_bytes_max;
        let (lanes, passed) = (&mut self.nodes, self.buckets_done);
        let heard = poll_fn(|context| {
            for (node, lane) in lanes.iter_mut().enumerate() {
                let ahead = crowded && lane.buckets_done > passed;
                if let Some(source) = lane.reply.as_mut().filter(|_| !ahead)
                    && let Poll::Ready(heard) = source.poll_next(context)
                {
                    return Poll::Ready((node, heard));
                }
            }
            Poll::Pending
        });
        Some(heard.await)
    }

    fn accept_message(&mut self, node: usize, heard: Result<ReplyMessage, MissingReason>) {
        let Some(lane) = self.nodes.get_mut(node) else { return };
        let taken = heard.and_then(|heard| match heard {
            ReplyMessage::Head(told) | ReplyMessage::Progress(told) => {
                self.coverage.check_status(node, &told)?;
                if !told.is_keepalive() {
                    let passed = usize::try_from(told.buckets_done).unwrap_or(usize::MAX);
                    lane.buckets_done = lane.buckets_done.max(passed.min(self.grid.buckets()));
                    lane.fraction_done = lane.fraction_done.max(told.done.clamp(0.0, 1.0));
                    lane.status = told;
                }
                Ok(())
            }
            ReplyMessage::Cells(content) => {
                let cells = cells::decode(&content, self.grid.cells()).map_err(invalid_reply)?;
                let first = lane.buckets_done * self.grid.levels();
                if cells.iter().any(|((cell, _), _)| *cell < first) {
                    return Err(invalid_reply(MalformedMessage("counted ids for a bucket already completed")));
                }
                self.total.add_ids(cells);
                Ok(())
            }
            ReplyMessage::End(told) => {
                (lane.status, lane.reply) = (told, None);
                Ok(())
            }
            ReplyMessage::Batch(_) => Err(invalid_reply(MalformedMessage("unexpected message: records"))),
        });
        if let Err(why) = taken {
            lane.reply = None;
            self.coverage.mark_missing(node, why);
        }
        let open = self.nodes.iter().filter(|lane| lane.reply.is_some());
        let passed = open.map(|lane| lane.buckets_done).min().unwrap_or(self.grid.buckets());
        if passed > self.buckets_done {
            self.buckets_done = passed;
            self.total.discard_before(passed);
        }
    }

    /// Which part of the work is done, on all nodes together.
    fn fraction_done(&self) -> f64 {
        let done = |lane: &NodeCount| if lane.reply.is_some() { lane.fraction_done } else { 1.0 };
        self.nodes.iter().map(done).sum::<f64>() / self.nodes.len().max(1) as f64
    }
}
