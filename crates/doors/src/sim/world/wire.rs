//! Carries a call: to the other node, its body there, the answer back, and whatever goes wrong on the way.
//!
//! A connection has two ends, and each learns of its end by itself: what an end holds is dropped when the news has come
//! there, which cuts off the bodies on that side. The news takes its time and waits where the way is cut, as everything.
//!
//! ```text
//!   caller                                            callee
//!   body ───► read ─► under way, at most WINDOW ─► write ───► Incoming::body
//!   answer ◄─ write ◄─ under way, at most WINDOW ◄─ read ◄─── Reply
//! ```
//! A piece counts as under way until the other direction has let its receipt pass. So a body stops where nobody reads,
//! and soon also where only the way back is cut.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::executor::{Shared, State};
use super::flaw::{Flaw, Stage};
use super::host::{Condition, Life};
use super::network::Way;
use super::trace::Event;
use crate::{Body, BodyWriter, Incoming, Reply};

/// Pieces of one body that are under way.
const WINDOW: usize = 4;

/// The longest piece that arrives as one.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// How long after a packet was lost it is sent again.
const AGAIN: Duration = Duration::from_millis(200);

/// How long after an unanswered knock comes the next: the first time; each further one takes twice as long.
const KNOCK_AGAIN: Duration = Duration::from_secs(1);

/// Knocks before nobody is thought to be there. With these numbers that takes two minutes, as it does on Linux.
const KNOCKS: u32 = 7;

/// How long one waits for a machine that is dark.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(3);

/// How long a connection lasts whose other end went dark, if that does not come back before.
const KEPT_ALIVE: Duration = Duration::from_secs(60);

/// What is called, by whom, with what.
pub(super) struct Call {
    pub(super) from: Life,
    pub(super) to: SocketAddr,
    pub(super) name: String,
    pub(super) body: Body,
}

/// What the caller's end holds.
struct Near {
    body: Body,
    tell: Option<oneshot::Sender<io::Result<Body>>>,
    answer: Option<BodyWriter>,
}

/// What the callee's end holds.
struct Far {
    body: Option<BodyWriter>,
    replied: oneshot::Receiver<io::Result<Body>>,
    answer: Body,
}

/// Why a call ended early.
enum Broken {
    /// Both ends are told.
    Wire,
    /// The caller wants no answer any more.
    Unwanted,
}

/// Whether a body came to its end.
#[derive(PartialEq, Eq)]
enum Carried {
    Whole,
    /// Nobody reads it any more.
    Unread,
}

/// One direction of a connection.
struct Line {
    shared: Arc<Shared>,
    way: Way,
    flaw: Option<Flaw>,
}

/// Carries a call to its end.
pub(super) async fn carry(shared: Arc<Shared>, call: Call, tell: oneshot::Sender<io::Result<Body>>) {
    let Call { from, to, name, body } = call;
    let mut near = Near { body, tell: Some(tell), answer: None };
    let connected = tokio::select! { biased;
        () = hung_up(&mut near.tell) => return,
        _ = ended(&shared, from) => return,
        connected = connect(&shared, from, to) => connected,
    };
    let (there, back, far_life) = match connected {
        Ok(lines) => lines,
        Err(error) => return answer(near.tell, Err(error)),
    };
    let (writer, body) = Body::channel();
    let (reply, replied) = Reply::channel();
    let mut far = Far { body: Some(writer), replied, answer: Body::empty() };
    let mut incoming = Some(Incoming { name, body, reply });
    let broken = tokio::select! { biased;
        how = ended(&shared, from) => {
            drop(near);
            there.news_of_death(from, how).await;
            return;
        }
        how = ended(&shared, far_life) => {
            drop((far, incoming));
            back.news_of_death(far_life, how).await;
            return;
        }
        talked = talk(&there, &back, &mut near, &mut far, far_life, &mut incoming) => talked.err(),
    };
    match broken {
        None => {}
        Some(Broken::Unwanted) => {
            drop(near);
            there.news().await;
        }
        Some(Broken::Wire) => {
            let near_learns = async {
                back.news().await;
                drop(near);
            };
            let far_learns = async {
                there.news().await;
                drop((far, incoming));
            };
            tokio::join!(near_learns, far_learns);
        }
    }
}

/// Knocks until somebody opens.
async fn connect(shared: &Arc<Shared>, from: Life, to: SocketAddr) -> io::Result<(Line, Line, Life)> {
    let found = {
        let state = shared.state();
        state.hosts.iter().position(|host| host.address.ip() == to.ip())
    };
    let Some(host) = found else {
        shared.sleep(UNREACHABLE_AFTER).await;
        return Err(io::ErrorKind::HostUnreachable.into());
    };
    let there = Line::new(shared, (from.host, host), [Stage::Connect, Stage::Request]);
    let back = Line::new(shared, (host, from.host), [Stage::Reply, Stage::Answer]);
    there.strike(Stage::Connect, 0, true).await.map_err(|_| io::ErrorKind::ConnectionReset)?;
    for knock in 0..KNOCKS {
        if there.passes() {
            there.pass().await;
            let open = {
                let mut state = shared.state();
                let host = state.host(host);
                if host.address == to { (host.condition, host.incarnation) } else { (Condition::Killed, 0) }
            };
            if open.0 == Condition::Dark {
                shared.sleep(UNREACHABLE_AFTER).await;
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            if back.passes() {
                back.pass().await;
                return match open {
                    (Condition::Up, incarnation) => Ok((there, back, Life { host, incarnation })),
                    _ => Err(io::ErrorKind::ConnectionRefused.into()),
                };
            }
        }
        shared.sleep(KNOCK_AGAIN * 2_u32.pow(knock)).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Carries what is said on a connection.
async fn talk(
    there: &Line,
    back: &Line,
    near: &mut Near,
    far: &mut Far,
    callee: Life,
    incoming: &mut Option<Incoming>,
) -> Result<(), Broken> {
    there.pass_in_order(0).await;
    // A caller who goes while the callee has no room for the call is noticed below, a little later.
    knock_at(there, callee, incoming).await;
    let Near { body, tell, answer: near_answer } = near;
    let Far { body: far_body, replied, answer: far_answer } = far;
    let request = async {
        if there.carry(Stage::Request, body, far_body, back).await? == Carried::Unread {
            back.pass().await;
        }
        // Who still writes is told that nobody reads.
        *body = Body::empty();
        Ok(())
    };
    let answered = async {
        let replied = tokio::select! { biased;
            () = hung_up(tell) => return Err(Broken::Unwanted),
            replied = replied => replied,
        };
        back.strike(Stage::Reply, 0, true).await?;
        back.pass_in_order(0).await;
        let replied = match replied {
            Ok(replied) => replied.map_err(|error| told(&error)),
            Err(_) => Err(io::Error::other("the call was not answered")),
        };
        *far_answer = match replied {
            Ok(body) => body,
            Err(error) => {
                answer(tell.take(), Err(error));
                return Ok(());
            }
        };
        let (writer, body) = Body::channel();
        *near_answer = Some(writer);
        answer(tell.take(), Ok(body));
        match back.carry(Stage::Answer, far_answer, near_answer, there).await? {
            Carried::Whole => Ok(()),
            Carried::Unread => Err(Broken::Unwanted),
        }
    };
    tokio::try_join!(biased; request, answered).map(|_| ())
}

/// Puts a call where it is accepted, as soon as there is room.
async fn knock_at(there: &Line, callee: Life, incoming: &mut Option<Incoming>) {
    while let Some(call) = incoming.take() {
        let pushed = {
            let mut state = there.shared.state();
            state.trace.note_bytes(Event::Call, callee.host as u64, call.name.as_bytes());
            // One that died just now has ended the connection before it is asked again.
            if state.lives(Some(callee)) { state.host(callee.host).calls.push(call) } else { Err(call) }
        };
        match pushed {
            Ok(waker) => waker.into_iter().for_each(std::task::Waker::wake),
            Err(call) => {
                *incoming = Some(call);
                there.shared.sleep(KNOCK_AGAIN).await;
            }
        }
    }
}

/// Resolves when the caller does not wait any more.
async fn hung_up(tell: &mut Option<oneshot::Sender<io::Result<Body>>>) {
    match tell {
        Some(tell) => tell.closed().await,
        None => std::future::pending().await,
    }
}

fn answer(tell: Option<oneshot::Sender<io::Result<Body>>>, answer: io::Result<Body>) {
    if let Some(tell) = tell {
        // The caller may have gone.
        let _ = tell.send(answer);
    }
}

/// An error as it looks from the other side.
fn told(error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Unsupported => io::Error::new(io::ErrorKind::Unsupported, error.to_string()),
        _ => io::Error::other(error.to_string()),
    }
}

/// Resolves when a node's life is over, with how it ended.
async fn ended(shared: &Shared, life: Life) -> Condition {
    shared.when(|state| !state.lives(Some(life))).await;
    shared.state().host(life.host).condition
}

impl Line {
    fn new(shared: &Arc<Shared>, way: Way, stages: [Stage; 2]) -> Self {
        let flaw = {
            let state = shared.state();
            Flaw::draw(&state.dice, state.links.weather(way), stages)
        };
        Self { shared: Arc::clone(shared), way, flaw }
    }

    fn passes(&self) -> bool {
        self.shared.state().passes(self.way)
    }

    /// Waits as long as something is under way.
    async fn pass(&self) {
        let delay = self.shared.state().delay(self.way);
        self.shared.sleep(delay).await;
    }

    /// Waits until so many bytes have arrived that are sent now, as often as that takes.
    async fn pass_in_order(&self, bytes: usize) {
        let at = self.arrival(Duration::ZERO, bytes);
        self.arrive(at).await;
    }

    /// When so many bytes arrive that are sent now, behind others that arrive at `before`.
    fn arrival(&self, before: Duration, bytes: usize) -> Duration {
        let state = self.shared.state();
        let weather = state.links.weather(self.way);
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / weather.bytes_per_second.max(1);
        let mut at = state.now + state.delay(self.way);
        let mut again = AGAIN;
        while state.dice.chance(weather.loss.min(0.9)) {
            at += again;
            again *= 2;
        }
        at.max(before) + Duration::from_nanos(nanos)
    }

    /// Waits until something arrives that should at `at`.
    async fn arrive(&self, at: Duration) {
        let now = self.shared.state().now;
        if at > now {
            self.shared.sleep(at - now).await;
        }
        self.open().await;
    }

    /// Waits until the way is not cut. What was sent before is sent again a while after.
    async fn open(&self) {
        let is_open = |state: &State| !state.links.is_cut(self.way);
        while !is_open(&self.shared.state()) {
            self.shared.when(is_open).await;
            let delay = self.shared.state().dice.up_to(AGAIN);
            self.shared.sleep(delay).await;
        }
    }

    /// Waits until the other side learns that the connection is no more.
    async fn news(&self) {
        self.pass_in_order(0).await;
    }

    /// The same when a node has died. Who lost power says nothing; one learns of it when it is back, or by and by.
    async fn news_of_death(&self, life: Life, how: Condition) {
        if how != Condition::Killed {
            tokio::select! { biased;
                () = self.shared.when(|state| state.is_back(life)) => {}
                () = self.shared.sleep(KEPT_ALIVE) => {}
            }
        }
        self.news().await;
    }

    /// Lets happen what is to go wrong here.
    async fn strike(&self, stage: Stage, pieces: usize, last: bool) -> Result<(), Broken> {
        match self.flaw.as_ref().filter(|flaw| flaw.strikes(stage, pieces, last)) {
            None => Ok(()),
            Some(Flaw { stall: None, .. }) => Err(Broken::Wire),
            Some(Flaw { stall: Some(time), .. }) => {
                self.shared.sleep(*time).await;
                Ok(())
            }
        }
    }

    /// Carries a body from one end to the other.
    async fn carry(
        &self,
        stage: Stage,
        source: &mut Body,
        target: &mut Option<BodyWriter>,
        receipts: &Self,
    ) -> Result<Carried, Broken> {
        let (send, under_way) = mpsc::unbounded_channel();
        let (received, to_return) = mpsc::unbounded_channel();
        let feed = async {
            let both = tokio::try_join!(biased; self.read(source, send), receipts.give_back(to_return));
            both?;
            // The other end says when it is over.
            std::future::pending().await
        };
        tokio::select! { biased;
            carried = self.write(stage, target, under_way, received) => carried,
            broken = feed => broken,
        }
    }

    async fn read(&self, source: &mut Body, send: mpsc::UnboundedSender<Packet>) -> Result<(), Broken> {
        let window = Arc::new(Semaphore::new(WINDOW));
        let room = async || Arc::clone(&window).acquire_owned().await.map_err(|_| Broken::Wire);
        let mut last = Duration::ZERO;
        while let Some(piece) = source.next().await {
            // Whoever made it failed: the connection is closed where it stands.
            let mut rest = piece.map_err(|_| Broken::Wire)?;
            while !rest.is_empty() {
                let room = room().await?;
                let piece = rest.split_to(self.piece_bytes(rest.len()));
                last = self.arrival(last, piece.len());
                // The one who receives ends first.
                let _ = send.send(Packet { at: last, piece: Some(piece), room });
            }
        }
        let room = room().await?;
        let _ = send.send(Packet { at: self.arrival(last, 0), piece: None, room });
        Ok(())
    }

    async fn write(
        &self,
        stage: Stage,
        target: &mut Option<BodyWriter>,
        mut under_way: mpsc::UnboundedReceiver<Packet>,
        received: mpsc::UnboundedSender<OwnedSemaphorePermit>,
    ) -> Result<Carried, Broken> {
        let Some(writer) = target.as_ref() else { return Ok(Carried::Unread) };
        let mut pieces = 0;
        loop {
            let next = async {
                let packet = under_way.recv().await?;
                self.arrive(packet.at).await;
                Some(packet)
            };
            let packet = tokio::select! { biased;
                () = writer.gone() => return Ok(Carried::Unread),
                packet = next => packet,
            };
            // Who reads has failed, and says so itself.
            let Some(Packet { piece, room, .. }) = packet else { return std::future::pending().await };
            self.strike(stage, pieces, piece.is_none()).await?;
            let Some(piece) = piece else { break };
            pieces += 1;
            let way = (self.way.0 as u64) << 32 | self.way.1 as u64;
            self.shared.state().trace.note_bytes(Event::Piece, way, &piece);
            if writer.send(piece).await.is_err() {
                return Ok(Carried::Unread);
            }
            let _ = received.send(room);
        }
        let ended = match target.take() {
            Some(writer) => writer.end().await,
            None => Ok(()),
        };
        Ok(if ended.is_ok() { Carried::Whole } else { Carried::Unread })
    }

    /// Lets receipts pass, this way.
    async fn give_back(&self, mut received: mpsc::UnboundedReceiver<OwnedSemaphorePermit>) -> Result<(), Broken> {
        while let Some(room) = received.recv().await {
            self.open().await;
            drop(room);
        }
        Ok(())
    }

    /// How many of so many bytes come next. Nobody is promised that pieces stay as they were made.
    fn piece_bytes(&self, bytes: usize) -> usize {
        let state = self.shared.state();
        let most = bytes.min(PIECE_BYTES_MAX);
        if state.dice.one_in(4) { 1 + state.dice.below(most) } else { most }
    }
}

/// A piece under way, or the end.
struct Packet {
    at: Duration,
    piece: Option<Bytes>,
    room: OwnedSemaphorePermit,
}
