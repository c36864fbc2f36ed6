//! Answers other nodes' questions from this node's queue and store.
//!
//! The head of an answer is sent as soon as the node has taken its snapshot. What blocks runs away from the tasks, a batch
//! at a time; meanwhile the asker is told now and then how far the search has come, so that a node that finds nothing for
//! long is not taken for dead. When the asker is gone, the search is cancelled; when it does not read, the search lets go of
//! what it holds.

use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, BodyWriter, BoxFuture, Tasks, run_blocking, with_timeout};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::batch::RecordBatchBuilder;
use super::cells;
use super::message::MessageKind;
use super::peers::{QueryPeer, QueryPeers};
use super::request::{DecodeRequestError, REQUEST_BYTES_MAX, ReplyStatus, ScatterRequest};
use crate::count::CountStream;
use crate::engine::Engine;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::search::Search;
use crate::stats::QueryStats;
use crate::tail::{Tail, TailBatch};
use bucksaw_rpc::stream_message;

/// The name of the call for records.
pub(crate) const SEARCH: &str = "query/search";
/// The name of the call for counts.
pub(crate) const COUNT: &str = "query/count";
/// The name of the call for new records.
pub(crate) const TAIL: &str = "query/tail";

/// How long a question waits while as many as may be are answered. Well below the time for which an asker waits for the
/// head of an answer.
const ADMISSION_MAX: Duration = Duration::from_secs(4);

/// How often the asker is told how far a search has come that has found nothing since.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// A sign of life comes so often.
const KEEPALIVE_INTERVALS: u32 = 10;

/// An asker who takes nothing for so long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How often a follower looks for new records.
const TAIL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A follower that sees nothing hears so often that the node is there.
const TAIL_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Records of a batch, at most.
const BATCH_RECORDS: usize = 8_192;

/// Bytes of a batch of new records.
const TAIL_BATCH_BYTES: usize = 64 << 10;

/// Answers questions of the nodes of a cluster, this one among them.
#[derive(Debug)]
pub struct QueryServer {
    engine: Arc<Engine>,
    tasks: Arc<dyn Tasks>,
    peers: Arc<dyn QueryPeers>,
    request_permits: Arc<Semaphore>,
    tail_permits: Arc<Semaphore>,
}

/// Nobody reads the answer, or it cannot be given.
struct ReplyAborted;

type SendResult = Result<(), ReplyAborted>;

impl QueryServer {
    /// Answers from this engine, and tells how many nodes are known here.
    #[must_use]
    pub fn new(engine: Arc<Engine>, tasks: Arc<dyn Tasks>, peers: Arc<dyn QueryPeers>) -> Arc<Self> {
        let room = |places: usize| Arc::new(Semaphore::new(places));
        let (questions, tails) = (room(engine.config.served_max), room(engine.config.served_tails_max));
        Arc::new(Self { engine, tasks, peers, request_permits: questions, tail_permits: tails })
    }

    /// Answers the calls of other nodes.
    pub fn register(self: &Arc<Self>, router: &bucksaw_cluster::Router) {
        for name in [SEARCH, COUNT, TAIL] {
            let serving = Arc::clone(self);
            router.add(name, move |body| serving.serve(name, body));
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn tasks(&self) -> &Arc<dyn Tasks> {
        &self.tasks
    }

    /// The nodes that queries are sent to.
    #[must_use]
    pub fn peers(&self) -> &Arc<dyn QueryPeers> {
        &self.peers
    }

    /// What the head of an answer says of this node, and of the others.
    fn head_status(&self, stats: &QueryStats) -> ReplyStatus {
        let (own, others) = (self.peers.local_peer(), self.peers.remote_peers());
        let twins = [&own].into_iter().chain(&others).filter_map(QueryPeer::duplicate_id_notice);
        ReplyStatus { nodes: others.len() as u64 + 1, ..ReplyStatus::from_stats(stats) }.with_node(own.node, twins)
    }

    /// Answers a call: `query/search`, `query/count` or `query/tail`. The answer's body is written by a task of its own.
    ///
    /// Its error is `Unsupported` when this node does not understand the question; else it says why the question cannot be
    /// answered.
    pub fn serve(self: &Arc<Self>, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (serving, name) = (Arc::clone(self), name.to_owned());
        Box::pin(async move {
            let question = ScatterRequest::decode(&body.read_all(REQUEST_BYTES_MAX).await?).map_err(decode_failure)?;
            let request = question.request().map_err(decode_failure)?;
            match name.as_str() {
                SEARCH => serving.search(request, question.batch_bytes()).await,
                COUNT => serving.count(request, question).await,
                TAIL => serving.tail(request).await,
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    }

    /// A place among those that are answered. The wait is bounded, because whoever has one may wait for another node's.
    async fn try_acquire(&self, of: &Arc<Semaphore>) -> io::Result<OwnedSemaphorePermit> {
        let place = with_timeout(&self.tasks, ADMISSION_MAX, Arc::clone(of).acquire_owned()).await;
        place.and_then(Result::ok).ok_or_else(|| io::Error::other("too many concurrent requests from other nodes"))
    }

    /// Does what blocks, and fails as the question does.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Engine>) -> Result<T, RequestError> + Send + 'static,
    ) -> io::Result<T> {
        let engine = Arc::clone(&self.engine);
        let begun = run_blocking(&self.tasks, move || work(engine)).await;
        begun.ok_or_else(|| io::Error::other("internal error: see the log of the node"))?.map_err(io::Error::other)
    }

    async fn search(self: Arc<Self>, request: Request, batch_bytes: usize) -> io::Result<Body> {
        let permit = self.try_acquire(&self.request_permits).await?;
        let cancel = Cancel::default();
        let (order, stop) = (request.order, cancel.clone());
        let search = self.run_blocking(move |engine| engine.search(request, stop)).await?;
        let (writer, body) = Body::channel();
        let answer = ReplyWriter { tasks: Arc::clone(&self.tasks), writer, cancel };
        let head = self.head_status(search.stats());
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            let writing = async {
                answer.send_status(MessageKind::Head, &head).await?;
                let search = answer.search(search, order, batch_bytes).await?;
                Ok(ReplyStatus::from_stats(search.stats()))
            };
            let written = writing.await;
            answer.end(written).await;
        }));
        Ok(body)
    }

    async fn count(self: Arc<Self>, request: Request, question: ScatterRequest) -> io::Result<Body> {
        let permit = self.try_acquire(&self.request_permits).await?;
        let cancel = Cancel::default();
        let (division, stop) = (question.bucketing(), cancel.clone());
        let counting = self.run_blocking(move |engine| CountStream::start(engine, request, stop, division)).await?;
        let (writer, body) = Body::channel();
        let answer = ReplyWriter { tasks: Arc::clone(&self.tasks), writer, cancel };
        let head = self.head_status(counting.stats());
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            let writing = async {
                answer.send_status(MessageKind::Head, &head).await?;
                answer.count(counting).await
            };
            let written = writing.await;
            answer.end(written).await;
        }));
        Ok(body)
    }

    async fn tail(self: Arc<Self>, request: Request) -> io::Result<Body> {
        let permit = self.try_acquire(&self.tail_permits).await?;
        let tail = self.run_blocking(move |engine| engine.tail(&request.expr)).await?;
        let (writer, body) = Body::channel();
        let answer = ReplyWriter { tasks: Arc::clone(&self.tasks), writer, cancel: Cancel::default() };
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            // It has no end but that of its reader.
            let _ = answer.tail(tail).await;
        }));
        Ok(body)
    }
}

fn decode_failure(unasked: DecodeRequestError) -> io::Error {
    match unasked {
        DecodeRequestError::Version(_) => io::Error::new(io::ErrorKind::Unsupported, unasked.to_string()),
        DecodeRequestError::Invalid(_) => io::Error::other(unasked.to_string()),
    }
}

/// The next batch of new records.
fn next_batch(tailed: &mut TailBatch) -> RecordBatchBuilder {
    let mut builder = RecordBatchBuilder::new(Order::Ascending);
    while builder.bytes() < TAIL_BATCH_BYTES && builder.records() < BATCH_RECORDS {
        if tailed.visit_next(|record| builder.push(record)).is_none() {
            break;
        }
    }
    builder
}

/// An answer that is being written.
struct ReplyWriter {
    tasks: Arc<dyn Tasks>,
    writer: BodyWriter,
    cancel: Cancel,
}

impl ReplyWriter {
    async fn send(&self, bytes: Bytes) -> SendResult {
        self.writer.send(bytes).await.map_err(|_| self.abort())
    }

    async fn send_status(&self, kind: MessageKind, told: &ReplyStatus) -> SendResult {
        self.send(stream_message(kind, &told.encode())).await
    }

    fn abort(&self) -> ReplyAborted {
        self.cancel.cancel();
        ReplyAborted
    }

    /// Ends the answer, unless it was cut off.
    async fn end(self, written: Result<ReplyStatus, ReplyAborted>) {
        let Ok(told) = written else { return };
        if self.cancel.is_cancelled() || self.send_status(MessageKind::End, &told).await.is_err() {
            return;
        }
        // Who is gone needs no end.
        let _ = self.writer.end().await;
    }

    /// Waits for work, and tells now and then how it stands when that is new, or as a sign of life.
    async fn run_with_progress<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut stands: impl FnMut() -> Option<ReplyStatus>,
    ) -> Result<T, ReplyAborted> {
        let mut work = pin!(run_blocking(&self.tasks, work));
        let mut quiet = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done.ok_or_else(|| self.abort()),
                () = self.writer.closed() => return Err(self.abort()),
                () = self.tasks.sleep(PROGRESS_INTERVAL) => {}
            }
            quiet += 1;
            let told = stands().or_else(|| (quiet >= KEEPALIVE_INTERVALS).then(ReplyStatus::default));
            let Some(told) = told else { continue };
            quiet = 0;
            tokio::select! {
                biased;
                done = &mut work => return done.ok_or_else(|| self.abort()),
                sent = self.send_status(MessageKind::Progress, &told) => sent?,
            }
        }
    }

    async fn search(&self, mut search: Search, order: Order, batch_bytes: usize) -> Result<Search, ReplyAborted> {
        loop {
            let reached = search.progress();
            let mut told_place = 0;
            let stands = || {
                let (place, stats) = reached.get();
                (std::mem::replace(&mut told_place, place) < place)
                    .then(|| ReplyStatus::from_stats(&stats).with_position(order, place))
            };
            let work = move || {
                let mut builder = RecordBatchBuilder::new(order);
                search.visit_batch(&mut |record| {
                    builder.push(record);
                    let full = builder.bytes() >= batch_bytes || builder.records() >= BATCH_RECORDS;
                    if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                (search, builder)
            };
            let builder;
            (search, builder) = self.run_with_progress(work, stands).await?;
            if builder.records() == 0 {
                return Ok(search);
            }
            // What is damaged is told of before what was found beside it.
            let stands = stream_message(MessageKind::Progress, &ReplyStatus::from_stats(search.stats()).encode());
            for piece in [stands].into_iter().chain(builder.finish()) {
                search = self.send_or_release(piece, search).await?;
            }
        }
    }

    /// Sends a piece; when that takes long, the search lets go of what it holds.
    async fn send_or_release(&self, piece: Bytes, mut search: Search) -> Result<Search, ReplyAborted> {
        let mut sending = pin!(self.send(piece));
        tokio::select! {
            biased;
            sent = &mut sending => return sent.map(|()| search),
            () = self.tasks.sleep(STALLED_AFTER) => {}
        }
        let let_go = move || {
            search.release_memory();
            search
        };
        search = run_blocking(&self.tasks, let_go).await.ok_or_else(|| self.abort())?;
        sending.await.map(|()| search)
    }

    async fn count(&self, mut counting: CountStream) -> Result<ReplyStatus, ReplyAborted> {
        loop {
            let work = move || {
                let step = counting.next_step();
                let messages = step.map(|step| (cells::encode(step.ids), step.buckets_done, step.fraction_done));
                (counting, messages)
            };
            let step;
            (counting, step) = self.run_with_progress(work, || None).await?;
            let told = ReplyStatus::from_stats(counting.stats());
            let Some((messages, buckets_done, done)) = step else { return Ok(told) };
            for message in messages {
                self.send(message).await?;
            }
            self.send_status(MessageKind::Progress, &ReplyStatus { buckets_done: buckets_done as u64, done, ..told })
                .await?;
        }
    }

    async fn tail(&self, mut tail: Tail) -> SendResult {
        self.send_status(MessageKind::Head, &ReplyStatus::default()).await?;
        let (mut quiet, mut lost) = (Duration::ZERO, 0);
        loop {
            if !tail.has_new_appends() {
                tokio::select! {
                    biased;
                    () = self.writer.closed() => return Err(self.abort()),
                    () = self.tasks.sleep(TAIL_POLL_INTERVAL) => {}
                }
                quiet += TAIL_POLL_INTERVAL;
                if quiet >= TAIL_KEEPALIVE_INTERVAL {
                    quiet = Duration::ZERO;
                    self.send_status(
                        MessageKind::Progress,
                        &ReplyStatus { bytes_lost: lost, ..ReplyStatus::default() },
                    )
                    .await?;
                }
                continue;
            }
            let look = move || {
                let tailed = tail.poll();
                (tail, tailed)
            };
            let mut tailed;
            (tail, tailed) = run_blocking(&self.tasks, look).await.ok_or_else(|| self.abort())?;
            if tailed.skipped_bytes > 0 {
                lost += tailed.skipped_bytes;
                self.send_status(MessageKind::Progress, &ReplyStatus { bytes_lost: lost, ..ReplyStatus::default() })
                    .await?;
            }
            // Batch by batch, so that a reader who stalls holds one beside what was found.
            while !tailed.is_empty() {
                quiet = Duration::ZERO;
                for piece in next_batch(&mut tailed).finish() {
                    self.send(piece).await?;
                }
            }
        }
    }
}
