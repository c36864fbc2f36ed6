//! Serves the requests of all nodes, this one included, from this node's queue and store.
//!
//! The server sends the head of a reply as soon as the snapshot is taken. Blocking work runs outside the tasks, one
//! batch at a time. Meanwhile the server sends progress messages at intervals, so that a long search without matches
//! does not time out. A search is cancelled when its reader disconnects, and releases its memory when the reader
//! stalls.

use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, BodyWriter, BoxFuture, Tasks, run_blocking, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::stream_message;
use bucksaw_store::ReplicaState;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::batch::{BatchContent, RecordBatchBuilder};
use super::cells;
use super::message::MessageKind;
use super::peers::{QueryPeer, QueryPeers};
use super::recent_divisions::RecentDivisions;
use super::replica_states::{self, REPLICAS, REPLICAS_REQUEST_BYTES_MAX, ReplicasRequest};
use super::request::{DecodeRequestError, REQUEST_BYTES_MAX, ReplyStatus, ScatterRequest};
use super::sent_streams;
use crate::count::CountStream;
use crate::engine::Engine;
use crate::local_tail::LocalTail;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::search::Search;
use crate::stats::QueryStats;
use crate::tail_event::{TailEvent, TailRecords};

/// The call for records.
pub(crate) const SEARCH: &str = "query/search";
/// The call for counts.
pub(crate) const COUNT: &str = "query/count";
/// The call for streams.
pub(crate) const STREAMS: &str = "query/streams";
/// The call for new records.
pub(crate) const TAIL: &str = "query/tail";

/// How long a request waits for a permit; much shorter than [`ReplyTimeouts::head`](super::ReplyTimeouts::head).
const ADMISSION_MAX: Duration = Duration::from_secs(4);

/// Interval of progress reports while a search finds nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// A keepalive is sent after this many intervals without a report.
const KEEPALIVE_INTERVALS: u32 = 10;

/// A reader that takes nothing for this long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Interval of keepalives while a tail sees nothing.
const TAIL_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum records of a batch.
const BATCH_RECORDS: usize = 8_192;

/// Bytes at which a batch of a tail is sent.
const TAIL_BATCH_BYTES: usize = 64 << 10;

/// Serves the requests of all nodes of a cluster, this one included.
#[derive(Debug)]
pub struct QueryServer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tasks: Arc<dyn Tasks>,
    peers: Arc<dyn QueryPeers>,
    request_permits: Arc<Semaphore>,
    tail_permits: Arc<Semaphore>,
    pub(super) divisions: RecentDivisions,
}

/// The reader is gone, or the work failed.
struct ReplyAborted;

type SendResult = Result<(), ReplyAborted>;

impl QueryServer {
    /// Serves from `engine`, and reports how many nodes are known here.
    #[must_use]
    pub fn new(engine: Arc<Engine>, tasks: Arc<dyn Tasks>, peers: Arc<dyn QueryPeers>) -> Arc<Self> {
        let request_permits = Arc::new(Semaphore::new(engine.config.served_max));
        let tail_permits = Arc::new(Semaphore::new(engine.config.served_tails_max));
        Arc::new(Self { engine, tasks, peers, request_permits, tail_permits, divisions: RecentDivisions::default() })
    }

    /// Serves the calls of other nodes.
    pub fn register(self: &Arc<Self>, router: &bucksaw_cluster::Router) {
        for name in [SEARCH, COUNT, STREAMS, TAIL, REPLICAS] {
            let server = Arc::clone(self);
            router.add(name, move |body| server.serve(name, body));
        }
    }

    /// The nodes that queries are sent to.
    #[must_use]
    pub fn peers(&self) -> &Arc<dyn QueryPeers> {
        &self.peers
    }

    fn head_status(&self, stats: &QueryStats) -> ReplyStatus {
        let (own, others) = (self.peers.local_peer(), self.peers.remote_peers());
        let duplicate_ids = [&own].into_iter().chain(&others).filter_map(QueryPeer::duplicate_id_notice);
        ReplyStatus { nodes: others.len() as u64 + 1, ..ReplyStatus::from_stats(stats) }
            .with_node(own.node, duplicate_ids)
    }

    /// Serves a call: `query/search`, `query/count`, `query/streams` or `query/tail`, whose replies are written by a task of their
    /// own, or `query/replicas`.
    ///
    /// The error is `Unsupported` for a request of an unsupported version; else it has the reason.
    pub fn serve(self: &Arc<Self>, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (server, name) = (Arc::clone(self), name.to_owned());
        Box::pin(async move {
            if name == REPLICAS {
                return server.replica_state(body).await;
            }
            let decoded = ScatterRequest::decode(&body.read_all(REQUEST_BYTES_MAX).await?).map_err(decode_failure)?;
            let own_database = server.engine.store.database_id();
            let queue_only =
                decoded.is_database_read_by_another(own_database.as_deref(), server.peers.local_peer().node);
            let request = Request { queue_only, ..decoded.request().map_err(decode_failure)? };
            match name.as_str() {
                SEARCH => server.search(request, decoded.batch_bytes(), decoded.batch_content()).await,
                COUNT => server.count(request, decoded).await,
                STREAMS => server.streams(request).await,
                TAIL => server.tail(request, decoded.batch_content()).await,
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    }

    /// Serves [`REPLICAS`]. Reading no record, it needs no permit.
    async fn replica_state(&self, body: Body) -> io::Result<Body> {
        let ids = ReplicasRequest::decode(&body.read_all(REPLICAS_REQUEST_BYTES_MAX).await?)?;
        let state = self.own_replica_state(ids).await.unwrap_or_default();
        Ok(Body::whole(replica_states::encode(&state)))
    }

    /// What this store holds of the records in a range of ids; `None` without replicas.
    pub(super) async fn own_replica_state(&self, ids: (Id, Id)) -> Option<ReplicaState> {
        let engine = Arc::clone(&self.engine);
        run_blocking(&self.tasks, move || engine.store.replica_state(ids)).await.flatten()
    }

    /// Waits for a permit. The wait is bounded, because a request with a permit may wait for one of another node.
    async fn acquire(&self, permits: &Arc<Semaphore>) -> io::Result<OwnedSemaphorePermit> {
        let permit = with_timeout(&self.tasks, ADMISSION_MAX, Arc::clone(permits).acquire_owned()).await;
        permit.and_then(Result::ok).ok_or_else(|| io::Error::other("too many concurrent requests from other nodes"))
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Engine>) -> Result<T, RequestError> + Send + 'static,
    ) -> io::Result<T> {
        let engine = Arc::clone(&self.engine);
        let result = run_blocking(&self.tasks, move || work(engine)).await;
        result.ok_or_else(|| io::Error::other("internal error: see the log of the node"))?.map_err(io::Error::other)
    }

    async fn search(&self, request: Request, batch_bytes: usize, content: BatchContent) -> io::Result<Body> {
        let permit = self.acquire(&self.request_permits).await?;
        let cancel = Cancel::default();
        let (order, stop) = (request.order, cancel.clone());
        let search = self.run_blocking(move |engine| engine.search(request, stop)).await?;
        // Its position: a node whose share starts later keeps no other one waiting.
        let head = self.head_status(&search.stats).with_position(order, search.frontier());
        Ok(self.spawn_reply(permit, cancel, head, move |reply| async move {
            let search = reply.write_search(search, (order, content), batch_bytes).await?;
            Ok((reply, ReplyStatus::from_stats(&search.stats)))
        }))
    }

    async fn count(&self, request: Request, decoded: ScatterRequest) -> io::Result<Body> {
        let permit = self.acquire(&self.request_permits).await?;
        let cancel = Cancel::default();
        let (bucketing, stop) = (decoded.bucketing().map_err(decode_failure)?, cancel.clone());
        let count = self.run_blocking(move |engine| CountStream::start(engine, request, stop, bucketing, true)).await?;
        let head = self.head_status(&count.stats);
        Ok(self.spawn_reply(permit, cancel, head, move |reply| async move {
            let status = reply.write_count(count).await?;
            Ok((reply, status))
        }))
    }

    async fn streams(&self, request: Request) -> io::Result<Body> {
        let permit = self.acquire(&self.request_permits).await?;
        let (cancel, engine) = (Cancel::default(), Arc::clone(&self.engine));
        let (head, stop) = (self.head_status(&QueryStats::default()), cancel.clone());
        Ok(self.spawn_reply(permit, cancel, head, move |reply| async move {
            // The queue is listed when the work starts, within the time limit of a head.
            let listed = reply.run_with_progress(move || engine.stream_tallies(&request, &stop), || None).await?;
            let Ok((tallies, stats)) = listed else { return Err(reply.abort()) };
            let status = ReplyStatus { streams_cut: tallies.is_cut, ..ReplyStatus::from_stats(&stats) };
            for message in sent_streams::encode(tallies.into_tallies()) {
                reply.send(message).await?;
            }
            Ok((reply, status))
        }))
    }

    async fn tail(&self, request: Request, content: BatchContent) -> io::Result<Body> {
        let permit = self.acquire(&self.tail_permits).await?;
        let tail = self.run_blocking(move |engine| engine.tail(request)).await?;
        let tail = LocalTail::new(tail, Arc::clone(&self.tasks));
        Ok(self.spawn_reply(permit, Cancel::default(), ReplyStatus::default(), move |reply| async move {
            Err(reply.write_tail(tail, content).await)
        }))
    }

    /// Writes a reply in a task of its own, which holds `permit`.
    fn spawn_reply<F>(
        &self,
        permit: OwnedSemaphorePermit,
        cancel: Cancel,
        head: ReplyStatus,
        write: impl FnOnce(ReplyWriter) -> F + Send + 'static,
    ) -> Body
    where
        F: Future<Output = Result<(ReplyWriter, ReplyStatus), ReplyAborted>> + Send + 'static,
    {
        let (writer, body) = Body::channel();
        let reply = ReplyWriter { tasks: Arc::clone(&self.tasks), writer, cancel };
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            if reply.send_status(MessageKind::Head, &head).await.is_ok()
                && let Ok((reply, status)) = write(reply).await
                && !reply.cancel.is_cancelled()
                && reply.send_status(MessageKind::End, &status).await.is_ok()
            {
                // A reader that is gone needs no end.
                let _ = reply.writer.end().await;
            }
        }));
        body
    }
}

fn decode_failure(error: DecodeRequestError) -> io::Error {
    match error {
        DecodeRequestError::Version(_) => io::Error::new(io::ErrorKind::Unsupported, error.to_string()),
        DecodeRequestError::Invalid(_) => io::Error::other(error.to_string()),
    }
}

/// The next batch of new records.
fn next_batch(records: &mut TailRecords, content: BatchContent) -> RecordBatchBuilder {
    let mut builder = RecordBatchBuilder::new(Order::Ascending, content);
    while builder.bytes() < TAIL_BATCH_BYTES && builder.records() < BATCH_RECORDS {
        if records.visit_next(|record| builder.push(record)).is_none() {
            break;
        }
    }
    builder
}

/// Writes a reply.
struct ReplyWriter {
    tasks: Arc<dyn Tasks>,
    writer: BodyWriter,
    cancel: Cancel,
}

impl ReplyWriter {
    async fn send(&self, bytes: Bytes) -> SendResult {
        self.writer.send(bytes).await.map_err(|_| self.abort())
    }

    async fn send_status(&self, kind: MessageKind, status: &ReplyStatus) -> SendResult {
        self.send(stream_message(kind, &status.encode())).await
    }

    fn abort(&self) -> ReplyAborted {
        self.cancel.cancel();
        ReplyAborted
    }

    /// Waits for `work`. At intervals sends the `progress`, if it has changed, or a keepalive.
    async fn run_with_progress<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut progress: impl FnMut() -> Option<ReplyStatus>,
    ) -> Result<T, ReplyAborted> {
        let mut work = pin!(run_blocking(&self.tasks, work));
        let mut quiet_intervals = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done.ok_or_else(|| self.abort()),
                () = self.writer.closed() => return Err(self.abort()),
                () = self.tasks.sleep(PROGRESS_INTERVAL) => {}
            }
            quiet_intervals += 1;
            let keepalive = || (quiet_intervals >= KEEPALIVE_INTERVALS).then(ReplyStatus::default);
            let Some(status) = progress().or_else(keepalive) else { continue };
            quiet_intervals = 0;
            tokio::select! {
                biased;
                done = &mut work => return done.ok_or_else(|| self.abort()),
                sent = self.send_status(MessageKind::Progress, &status) => sent?,
            }
        }
    }

    async fn write_search(
        &self,
        mut search: Search,
        (order, content): (Order, BatchContent),
        batch_bytes: usize,
    ) -> Result<Search, ReplyAborted> {
        let mut damaged = search.stats.damaged.len();
        loop {
            let progress = search.progress();
            let mut sent_key = 0;
            let new_progress = || {
                let (key, stats) = progress.get();
                (std::mem::replace(&mut sent_key, key) < key)
                    .then(|| ReplyStatus::from_stats(&stats).with_position(order, key))
            };
            let work = move || {
                let mut builder = RecordBatchBuilder::new(order, content);
                search.visit_batch(&mut |record| {
                    builder.push(record);
                    let is_full = builder.bytes() >= batch_bytes || builder.records() >= BATCH_RECORDS;
                    if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                (search, builder)
            };
            let builder;
            (search, builder) = self.run_with_progress(work, new_progress).await?;
            // Before any record behind the damage: another node searches the share of this one from there on.
            if std::mem::replace(&mut damaged, search.stats.damaged.len()) < search.stats.damaged.len() {
                self.send_status(MessageKind::Progress, &ReplyStatus::from_stats(&search.stats)).await?;
            }
            if builder.records() == 0 {
                return Ok(search);
            }
            // Damage is reported before the records that were found beside it.
            let status = stream_message(MessageKind::Progress, &ReplyStatus::from_stats(&search.stats).encode());
            for piece in [status].into_iter().chain(builder.finish()) {
                search = self.send_or_release(piece, search).await?;
            }
        }
    }

    /// Sends a piece. If the reader stalls, the search releases its memory.
    async fn send_or_release(&self, piece: Bytes, mut search: Search) -> Result<Search, ReplyAborted> {
        let mut sending = pin!(self.send(piece));
        tokio::select! {
            biased;
            sent = &mut sending => return sent.map(|()| search),
            () = self.tasks.sleep(STALLED_AFTER) => {}
        }
        let release = move || {
            search.release_memory();
            search
        };
        search = run_blocking(&self.tasks, release).await.ok_or_else(|| self.abort())?;
        sending.await.map(|()| search)
    }

    async fn write_count(&self, mut count: CountStream) -> Result<ReplyStatus, ReplyAborted> {
        loop {
            let work = move || {
                let step = count.next_step();
                let messages = step.map(|step| (cells::encode(step.ids), step.buckets_done, step.fraction_done));
                (count, messages)
            };
            let step;
            (count, step) = self.run_with_progress(work, || None).await?;
            let status = ReplyStatus::from_stats(&count.stats);
            let Some((messages, buckets_done, done)) = step else { return Ok(status) };
            for message in messages {
                self.send(message).await?;
            }
            let status = ReplyStatus { buckets_done: buckets_done as u64, done, ..status };
            self.send_status(MessageKind::Progress, &status).await?;
        }
    }

    /// Ends only with its reader.
    async fn write_tail(&self, mut tail: LocalTail, content: BatchContent) -> ReplyAborted {
        let mut bytes_lost = 0;
        loop {
            let event = tokio::select! {
                biased;
                () = self.writer.closed() => return self.abort(),
                event = tail.next() => match event {
                    Some(event) => Some(event),
                    None => return self.abort(),
                },
                () = self.tasks.sleep(TAIL_KEEPALIVE_INTERVAL) => None,
            };
            let sent = match event {
                Some(TailEvent::Records(records)) => self.send_tail_records(records, content).await,
                event => {
                    if let Some(TailEvent::Skipped { bytes, .. }) = event {
                        bytes_lost += bytes;
                    }
                    let status = ReplyStatus { bytes_lost, ..ReplyStatus::default() };
                    self.send_status(MessageKind::Progress, &status).await
                }
            };
            if let Err(aborted) = sent {
                return aborted;
            }
        }
    }

    /// Sends batch by batch, so that a stalled reader holds one of them besides the records.
    async fn send_tail_records(&self, mut records: TailRecords, content: BatchContent) -> SendResult {
        loop {
            let builder = next_batch(&mut records, content);
            if builder.records() == 0 {
                return Ok(());
            }
            for piece in builder.finish() {
                self.send(piece).await?;
            }
        }
    }
}
