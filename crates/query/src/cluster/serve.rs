//! Answers other nodes' questions from this node's queue and shelf.
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

use bucksaw_doors::{Body, BodyWriter, Tasks, Waiting, run, within};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::batch::Builder;
use super::cells;
use super::message::{Kind, message};
use super::peers::{Peer, Peers};
use super::question::{QUESTION_BYTES_MAX, Question, Told, Unasked};
use crate::count::Counting;
use crate::engine::Engine;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::search::Search;
use crate::stats::Stats;
use crate::tail::{Tail, Tailed};

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
const TELL_EVERY: Duration = Duration::from_millis(500);

/// A sign of life comes so often.
const ALIVE_EVERY: u32 = 10;

/// An asker who takes nothing for so long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How often a follower looks for new records.
const LOOK: Duration = Duration::from_millis(20);

/// A follower that sees nothing hears so often that the node is there.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Records of a batch, at most.
const BATCH_RECORDS: usize = 8_192;

/// Bytes of a batch of new records.
const TAILED_BYTES: usize = 64 << 10;

/// Answers questions of the nodes of a cluster, this one among them.
#[derive(Debug)]
pub struct Serving {
    engine: Arc<Engine>,
    tasks: Arc<dyn Tasks>,
    peers: Arc<dyn Peers>,
    questions: Arc<Semaphore>,
    tails: Arc<Semaphore>,
}

/// Nobody reads the answer, or it cannot be given.
struct Over;

type Sent = Result<(), Over>;

impl Serving {
    /// Answers from this engine, and tells how many nodes are known here.
    #[must_use]
    pub fn new(engine: Arc<Engine>, tasks: Arc<dyn Tasks>, peers: Arc<dyn Peers>) -> Arc<Self> {
        let room = |places: usize| Arc::new(Semaphore::new(places));
        let (questions, tails) = (room(engine.config.served_max), room(engine.config.served_tails_max));
        Arc::new(Self { engine, tasks, peers, questions, tails })
    }

    /// Answers the calls of other nodes.
    pub fn register(self: &Arc<Self>, router: &bucksaw_cluster::Router) {
        for name in [SEARCH, COUNT, TAIL] {
            let serving = Arc::clone(self);
            router.add(name, move |body| serving.answer(name, body));
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn tasks(&self) -> &Arc<dyn Tasks> {
        &self.tasks
    }

    pub(crate) fn peers(&self) -> &Arc<dyn Peers> {
        &self.peers
    }

    /// What the head of an answer says of this node, and of the others.
    fn head(&self, stats: &Stats) -> Told {
        let (own, others) = (self.peers.own(), self.peers.others());
        let twins = [&own].into_iter().chain(&others).filter_map(Peer::twins);
        Told { nodes: others.len() as u64 + 1, ..Told::of(stats) }.by(own.node, twins)
    }

    /// Answers a call: `query/search`, `query/count` or `query/tail`. The answer's body is written by a task of its own.
    ///
    /// Its error is `Unsupported` when this node does not understand the question; else it says why the question cannot be
    /// answered.
    pub fn answer(self: &Arc<Self>, name: &str, body: Body) -> Waiting<io::Result<Body>> {
        let (serving, name) = (Arc::clone(self), name.to_owned());
        Box::pin(async move {
            let question = Question::decode(&body.read_all(QUESTION_BYTES_MAX).await?).map_err(unasked)?;
            let request = question.request().map_err(unasked)?;
            match name.as_str() {
                SEARCH => serving.search(request, question.batch_bytes()).await,
                COUNT => serving.count(request, question).await,
                TAIL => serving.tail(request).await,
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    }

    /// A place among those that are answered. The wait is bounded, because whoever has one may wait for another node's.
    async fn permit(&self, of: &Arc<Semaphore>) -> io::Result<OwnedSemaphorePermit> {
        let place = within(&self.tasks, ADMISSION_MAX, Arc::clone(of).acquire_owned()).await;
        place.and_then(Result::ok).ok_or_else(|| io::Error::other("too many questions are asked of this node"))
    }

    /// Does what blocks, and fails as the question does.
    async fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Engine>) -> Result<T, RequestError> + Send + 'static,
    ) -> io::Result<T> {
        let engine = Arc::clone(&self.engine);
        let begun = run(&self.tasks, move || work(engine)).await;
        begun.ok_or_else(|| io::Error::other("a bug: the node's log says more"))?.map_err(io::Error::other)
    }

    async fn search(self: Arc<Self>, request: Request, batch_bytes: usize) -> io::Result<Body> {
        let permit = self.permit(&self.questions).await?;
        let cancel = Cancel::default();
        let (order, stop) = (request.order, cancel.clone());
        let search = self.begin(move |engine| engine.search(request, stop)).await?;
        let (writer, body) = Body::channel();
        let answer = Answer { tasks: Arc::clone(&self.tasks), writer, cancel };
        let head = self.head(search.stats());
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            let writing = async {
                answer.tell(Kind::Head, &head).await?;
                let search = answer.search(search, order, batch_bytes).await?;
                Ok(Told::of(search.stats()))
            };
            let written = writing.await;
            answer.end(written).await;
        }));
        Ok(body)
    }

    async fn count(self: Arc<Self>, request: Request, question: Question) -> io::Result<Body> {
        let permit = self.permit(&self.questions).await?;
        let cancel = Cancel::default();
        let (division, stop) = (question.division(), cancel.clone());
        let counting = self.begin(move |engine| Counting::start(engine, request, stop, division)).await?;
        let (writer, body) = Body::channel();
        let answer = Answer { tasks: Arc::clone(&self.tasks), writer, cancel };
        let head = self.head(counting.stats());
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            let writing = async {
                answer.tell(Kind::Head, &head).await?;
                answer.count(counting).await
            };
            let written = writing.await;
            answer.end(written).await;
        }));
        Ok(body)
    }

    async fn tail(self: Arc<Self>, request: Request) -> io::Result<Body> {
        let permit = self.permit(&self.tails).await?;
        let tail = self.begin(move |engine| engine.tail(&request.expr)).await?;
        let (writer, body) = Body::channel();
        let answer = Answer { tasks: Arc::clone(&self.tasks), writer, cancel: Cancel::default() };
        self.tasks.spawn(Box::pin(async move {
            let _permit = permit;
            // It has no end but that of its reader.
            let _ = answer.tail(tail).await;
        }));
        Ok(body)
    }
}

fn unasked(unasked: Unasked) -> io::Error {
    match unasked {
        Unasked::Version(_) => io::Error::new(io::ErrorKind::Unsupported, unasked.to_string()),
        Unasked::Senseless(_) => io::Error::other(unasked.to_string()),
    }
}

/// The next batch of new records.
fn next_batch(tailed: &mut Tailed) -> Builder {
    let mut builder = Builder::new(Order::Ascending);
    while builder.bytes() < TAILED_BYTES && builder.records() < BATCH_RECORDS {
        if tailed.show(|record| builder.push(record)).is_none() {
            break;
        }
    }
    builder
}

/// An answer that is being written.
struct Answer {
    tasks: Arc<dyn Tasks>,
    writer: BodyWriter,
    cancel: Cancel,
}

impl Answer {
    async fn send(&self, bytes: Bytes) -> Sent {
        self.writer.send(bytes).await.map_err(|_| self.give_up())
    }

    async fn tell(&self, kind: Kind, told: &Told) -> Sent {
        self.send(message(kind, &told.encode())).await
    }

    fn give_up(&self) -> Over {
        self.cancel.cancel();
        Over
    }

    /// Ends the answer, unless it was cut off.
    async fn end(self, written: Result<Told, Over>) {
        let Ok(told) = written else { return };
        if self.cancel.is_cancelled() || self.tell(Kind::End, &told).await.is_err() {
            return;
        }
        // Who is gone needs no end.
        let _ = self.writer.end().await;
    }

    /// Waits for work, and tells now and then how it stands when that is new, or as a sign of life.
    async fn attend<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut stands: impl FnMut() -> Option<Told>,
    ) -> Result<T, Over> {
        let mut work = pin!(run(&self.tasks, work));
        let mut quiet = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done.ok_or_else(|| self.give_up()),
                () = self.writer.gone() => return Err(self.give_up()),
                () = self.tasks.sleep(TELL_EVERY) => {}
            }
            quiet += 1;
            let told = stands().or_else(|| (quiet >= ALIVE_EVERY).then(Told::default));
            let Some(told) = told else { continue };
            quiet = 0;
            tokio::select! {
                biased;
                done = &mut work => return done.ok_or_else(|| self.give_up()),
                sent = self.tell(Kind::Progress, &told) => sent?,
            }
        }
    }

    async fn search(&self, mut search: Search, order: Order, batch_bytes: usize) -> Result<Search, Over> {
        loop {
            let reached = search.reached();
            let mut told_place = 0;
            let stands = || {
                let (place, stats) = reached.get();
                (std::mem::replace(&mut told_place, place) < place).then(|| Told::of(&stats).reached(order, place))
            };
            let work = move || {
                let mut builder = Builder::new(order);
                search.show_batch(&mut |record| {
                    builder.push(record);
                    let full = builder.bytes() >= batch_bytes || builder.records() >= BATCH_RECORDS;
                    if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                (search, builder)
            };
            let builder;
            (search, builder) = self.attend(work, stands).await?;
            if builder.records() == 0 {
                return Ok(search);
            }
            // What is damaged is told of before what was found beside it.
            let stands = message(Kind::Progress, &Told::of(search.stats()).encode());
            for piece in [stands].into_iter().chain(builder.finish()) {
                search = self.send_or_let_go(piece, search).await?;
            }
        }
    }

    /// Sends a piece; when that takes long, the search lets go of what it holds.
    async fn send_or_let_go(&self, piece: Bytes, mut search: Search) -> Result<Search, Over> {
        let mut sending = pin!(self.send(piece));
        tokio::select! {
            biased;
            sent = &mut sending => return sent.map(|()| search),
            () = self.tasks.sleep(STALLED_AFTER) => {}
        }
        let let_go = move || {
            search.let_go();
            search
        };
        search = run(&self.tasks, let_go).await.ok_or_else(|| self.give_up())?;
        sending.await.map(|()| search)
    }

    async fn count(&self, mut counting: Counting) -> Result<Told, Over> {
        loop {
            let work = move || {
                let step = counting.step();
                let messages = step.map(|step| (cells::encode(step.ids), step.buckets_done, step.done));
                (counting, messages)
            };
            let step;
            (counting, step) = self.attend(work, || None).await?;
            let told = Told::of(counting.stats());
            let Some((messages, buckets_done, done)) = step else { return Ok(told) };
            for message in messages {
                self.send(message).await?;
            }
            self.tell(Kind::Progress, &Told { buckets_done: buckets_done as u64, done, ..told }).await?;
        }
    }

    async fn tail(&self, mut tail: Tail) -> Sent {
        self.tell(Kind::Head, &Told::default()).await?;
        let (mut quiet, mut lost) = (Duration::ZERO, 0);
        loop {
            if !tail.has_news() {
                tokio::select! {
                    biased;
                    () = self.writer.gone() => return Err(self.give_up()),
                    () = self.tasks.sleep(LOOK) => {}
                }
                quiet += LOOK;
                if quiet >= HEARTBEAT {
                    quiet = Duration::ZERO;
                    self.tell(Kind::Progress, &Told { bytes_lost: lost, ..Told::default() }).await?;
                }
                continue;
            }
            let look = move || {
                let tailed = tail.poll();
                (tail, tailed)
            };
            let mut tailed;
            (tail, tailed) = run(&self.tasks, look).await.ok_or_else(|| self.give_up())?;
            if tailed.skipped_bytes > 0 {
                lost += tailed.skipped_bytes;
                self.tell(Kind::Progress, &Told { bytes_lost: lost, ..Told::default() }).await?;
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
