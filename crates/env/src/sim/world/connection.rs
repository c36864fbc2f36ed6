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

use super::call_fault::{CallFault, CallStage};
use super::executor::{Executor, WorldState};
use super::host_state::{HostStatus, ProcessId};
use super::network::LinkId;
use super::run_hash::TraceEvent;
use crate::{Body, BodyWriter, IncomingCall, Reply};

/// Pieces of one body that are under way.
const WINDOW_PIECES: usize = 4;

/// The longest piece that arrives as one.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// How long after a packet was lost it is sent again.
const RETRANSMIT_DELAY: Duration = Duration::from_millis(200);

/// How long after an unanswered knock comes the next: the first time; each further one takes twice as long.
const CONNECT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Knocks before nobody is thought to be there. With these numbers that takes two minutes, as it does on Linux.
const CONNECT_TRIES: u32 = 7;

/// How long one waits for a machine that is dark.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a connection lasts whose other end went dark, if that does not come back before.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// What is called, by whom, with what.
pub(super) struct OutgoingCall {
    pub(super) from: ProcessId,
    pub(super) to: SocketAddr,
    pub(super) name: String,
    pub(super) body: Body,
}

/// What the caller's end holds.
struct CallerEnd {
    body: Body,
    caller: Option<oneshot::Sender<io::Result<Body>>>,
    answer: Option<BodyWriter>,
}

/// What the callee's end holds.
struct CalleeEnd {
    body: Option<BodyWriter>,
    replied: oneshot::Receiver<io::Result<Body>>,
    answer: Body,
}

/// Why a call ended early.
enum CallAborted {
    /// Both ends are told.
    ConnectionBroken,
    /// The caller wants no answer any more.
    CallerGone,
}

/// Whether a body came to its end.
#[derive(PartialEq, Eq)]
enum Transfer {
    Complete,
    /// Nobody reads it any more.
    ReaderGone,
}

/// One direction of a connection.
struct HalfConnection {
    executor: Arc<Executor>,
    link: LinkId,
    fault: Option<CallFault>,
}

/// Carries a call to its end.
pub(super) async fn run_call(shared: Arc<Executor>, call: OutgoingCall, tell: oneshot::Sender<io::Result<Body>>) {
    let OutgoingCall { from, to, name, body } = call;
    let mut near = CallerEnd { body, caller: Some(tell), answer: None };
    let connected = tokio::select! { biased;
        () = caller_closed(&mut near.caller) => return,
        _ = wait_for_exit(&shared, from) => return,
        connected = connect(&shared, from, to) => connected,
    };
    let (there, back, far_life) = match connected {
        Ok(lines) => lines,
        Err(error) => return reply_to_caller(near.caller, Err(error)),
    };
    let (writer, body) = Body::channel();
    let (reply, replied) = Reply::channel();
    let mut far = CalleeEnd { body: Some(writer), replied, answer: Body::empty() };
    let mut incoming = Some(IncomingCall { name, body, reply });
    let broken = tokio::select! { biased;
        how = wait_for_exit(&shared, from) => {
            drop(near);
            there.close_after_crash(from, how).await;
            return;
        }
        how = wait_for_exit(&shared, far_life) => {
            drop((far, incoming));
            back.close_after_crash(far_life, how).await;
            return;
        }
        talked = exchange(&there, &back, &mut near, &mut far, far_life, &mut incoming) => talked.err(),
    };
    match broken {
        None => {}
        Some(CallAborted::CallerGone) => {
            drop(near);
            there.propagate_close().await;
        }
        Some(CallAborted::ConnectionBroken) => {
            let near_learns = async {
                back.propagate_close().await;
                drop(near);
            };
            let far_learns = async {
                there.propagate_close().await;
                drop((far, incoming));
            };
            tokio::join!(near_learns, far_learns);
        }
    }
}

/// Knocks until somebody opens.
async fn connect(
    shared: &Arc<Executor>,
    from: ProcessId,
    to: SocketAddr,
) -> io::Result<(HalfConnection, HalfConnection, ProcessId)> {
    let found = {
        let state = shared.state();
        state.hosts.iter().position(|host| host.address.ip() == to.ip())
    };
    let Some(host) = found else {
        shared.sleep(UNREACHABLE_TIMEOUT).await;
        return Err(io::ErrorKind::HostUnreachable.into());
    };
    let there = HalfConnection::new(shared, (from.host, host), [CallStage::Connect, CallStage::Request]);
    let back = HalfConnection::new(shared, (host, from.host), [CallStage::Reply, CallStage::Answer]);
    there.inject_fault(CallStage::Connect, 0, true).await.map_err(|_| io::ErrorKind::ConnectionReset)?;
    for knock in 0..CONNECT_TRIES {
        if there.is_delivered() {
            there.delay().await;
            let open = {
                let mut state = shared.state();
                let host = state.host(host);
                if host.address == to { (host.status, host.incarnation) } else { (HostStatus::Killed, 0) }
            };
            if open.0 == HostStatus::PoweredOff {
                shared.sleep(UNREACHABLE_TIMEOUT).await;
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            if back.is_delivered() {
                back.delay().await;
                return match open {
                    (HostStatus::Up, incarnation) => Ok((there, back, ProcessId { host, incarnation })),
                    _ => Err(io::ErrorKind::ConnectionRefused.into()),
                };
            }
        }
        shared.sleep(CONNECT_RETRY_DELAY * 2_u32.pow(knock)).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Carries what is said on a connection.
async fn exchange(
    there: &HalfConnection,
    back: &HalfConnection,
    near: &mut CallerEnd,
    far: &mut CalleeEnd,
    callee: ProcessId,
    incoming: &mut Option<IncomingCall>,
) -> Result<(), CallAborted> {
    there.delay_in_order(0).await;
    // A caller who goes while the callee has no room for the call is noticed below, a little later.
    deliver_call(there, callee, incoming).await;
    let CallerEnd { body, caller: tell, answer: near_answer } = near;
    let CalleeEnd { body: far_body, replied, answer: far_answer } = far;
    let request = async {
        if there.transfer(CallStage::Request, body, far_body, back).await? == Transfer::ReaderGone {
            back.delay().await;
        }
        // Who still writes is told that nobody reads.
        *body = Body::empty();
        Ok(())
    };
    let answered = async {
        let replied = tokio::select! { biased;
            () = caller_closed(tell) => return Err(CallAborted::CallerGone),
            replied = replied => replied,
        };
        back.inject_fault(CallStage::Reply, 0, true).await?;
        back.delay_in_order(0).await;
        let replied = match replied {
            Ok(replied) => replied.map_err(|error| remote_error(&error)),
            Err(_) => Err(io::Error::other("the call was not answered")),
        };
        *far_answer = match replied {
            Ok(body) => body,
            Err(error) => {
                reply_to_caller(tell.take(), Err(error));
                return Ok(());
            }
        };
        let (writer, body) = Body::channel();
        *near_answer = Some(writer);
        reply_to_caller(tell.take(), Ok(body));
        match back.transfer(CallStage::Answer, far_answer, near_answer, there).await? {
            Transfer::Complete => Ok(()),
            Transfer::ReaderGone => Err(CallAborted::CallerGone),
        }
    };
    tokio::try_join!(biased; request, answered).map(|_| ())
}

/// Puts a call where it is accepted, as soon as there is room.
async fn deliver_call(there: &HalfConnection, callee: ProcessId, incoming: &mut Option<IncomingCall>) {
    while let Some(call) = incoming.take() {
        let pushed = {
            let mut state = there.executor.state();
            state.trace.add_bytes(TraceEvent::Call, callee.host as u64, call.name.as_bytes());
            // One that died just now has ended the connection before it is asked again.
            if state.is_running(Some(callee)) { state.host(callee.host).calls.push(call) } else { Err(call) }
        };
        match pushed {
            Ok(waker) => waker.into_iter().for_each(std::task::Waker::wake),
            Err(call) => {
                *incoming = Some(call);
                there.executor.sleep(CONNECT_RETRY_DELAY).await;
            }
        }
    }
}

/// Resolves when the caller does not wait any more.
async fn caller_closed(tell: &mut Option<oneshot::Sender<io::Result<Body>>>) {
    match tell {
        Some(tell) => tell.closed().await,
        None => std::future::pending().await,
    }
}

fn reply_to_caller(tell: Option<oneshot::Sender<io::Result<Body>>>, answer: io::Result<Body>) {
    if let Some(tell) = tell {
        // The caller may have gone.
        let _ = tell.send(answer);
    }
}

/// An error as it looks from the other side.
fn remote_error(error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Unsupported => io::Error::new(io::ErrorKind::Unsupported, error.to_string()),
        _ => io::Error::other(error.to_string()),
    }
}

/// Resolves when a node's life is over, with how it ended.
async fn wait_for_exit(shared: &Executor, life: ProcessId) -> HostStatus {
    shared.wait_until(|state| !state.is_running(Some(life))).await;
    shared.state().host(life.host).status
}

impl HalfConnection {
    fn new(shared: &Arc<Executor>, way: LinkId, stages: [CallStage; 2]) -> Self {
        let flaw = {
            let state = shared.state();
            CallFault::sample(&state.rng, state.links.conditions(way), stages)
        };
        Self { executor: Arc::clone(shared), link: way, fault: flaw }
    }

    fn is_delivered(&self) -> bool {
        self.executor.state().is_delivered(self.link)
    }

    /// Waits as long as something is under way.
    async fn delay(&self) {
        let delay = self.executor.state().delay(self.link);
        self.executor.sleep(delay).await;
    }

    /// Waits until so many bytes have arrived that are sent now, as often as that takes.
    async fn delay_in_order(&self, bytes: usize) {
        let at = self.arrival_time(Duration::ZERO, bytes);
        self.wait_for_arrival(at).await;
    }

    /// When so many bytes arrive that are sent now, behind others that arrive at `before`.
    fn arrival_time(&self, before: Duration, bytes: usize) -> Duration {
        let state = self.executor.state();
        let weather = state.links.conditions(self.link);
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / weather.bytes_per_second.max(1);
        let mut at = state.now + state.delay(self.link);
        let mut again = RETRANSMIT_DELAY;
        while state.rng.with_probability(weather.loss.min(0.9)) {
            at += again;
            again *= 2;
        }
        at.max(before) + Duration::from_nanos(nanos)
    }

    /// Waits until something arrives that should at `at`.
    async fn wait_for_arrival(&self, at: Duration) {
        let now = self.executor.state().now;
        if at > now {
            self.executor.sleep(at - now).await;
        }
        self.wait_until_open().await;
    }

    /// Waits until the way is not cut. What was sent before is sent again a while after.
    async fn wait_until_open(&self) {
        let is_open = |state: &WorldState| !state.links.is_cut(self.link);
        while !is_open(&self.executor.state()) {
            self.executor.wait_until(is_open).await;
            let delay = self.executor.state().rng.duration_up_to(RETRANSMIT_DELAY);
            self.executor.sleep(delay).await;
        }
    }

    /// Waits until the other side learns that the connection is no more.
    async fn propagate_close(&self) {
        self.delay_in_order(0).await;
    }

    /// The same when a node has died. Who lost power says nothing; one learns of it when it is back, or by and by.
    async fn close_after_crash(&self, life: ProcessId, how: HostStatus) {
        if how != HostStatus::Killed {
            tokio::select! { biased;
                () = self.executor.wait_until(|state| state.has_restarted(life)) => {}
                () = self.executor.sleep(KEEPALIVE_TIMEOUT) => {}
            }
        }
        self.propagate_close().await;
    }

    /// Lets happen what is to go wrong here.
    async fn inject_fault(&self, stage: CallStage, pieces: usize, last: bool) -> Result<(), CallAborted> {
        match self.fault.as_ref().filter(|flaw| flaw.triggers_at(stage, pieces, last)) {
            None => Ok(()),
            Some(CallFault { stall: None, .. }) => Err(CallAborted::ConnectionBroken),
            Some(CallFault { stall: Some(time), .. }) => {
                self.executor.sleep(*time).await;
                Ok(())
            }
        }
    }

    /// Carries a body from one end to the other.
    async fn transfer(
        &self,
        stage: CallStage,
        source: &mut Body,
        target: &mut Option<BodyWriter>,
        receipts: &Self,
    ) -> Result<Transfer, CallAborted> {
        let (send, under_way) = mpsc::unbounded_channel();
        let (received, to_return) = mpsc::unbounded_channel();
        let feed = async {
            let both = tokio::try_join!(biased; self.send_pieces(source, send), receipts.return_receipts(to_return));
            both?;
            // The other end says when it is over.
            std::future::pending().await
        };
        tokio::select! { biased;
            carried = self.receive_pieces(stage, target, under_way, received) => carried,
            broken = feed => broken,
        }
    }

    async fn send_pieces(
        &self,
        source: &mut Body,
        send: mpsc::UnboundedSender<PacketInFlight>,
    ) -> Result<(), CallAborted> {
        let window = Arc::new(Semaphore::new(WINDOW_PIECES));
        let room = async || Arc::clone(&window).acquire_owned().await.map_err(|_| CallAborted::ConnectionBroken);
        let mut last = Duration::ZERO;
        while let Some(piece) = source.next().await {
            // Whoever made it failed: the connection is closed where it stands.
            let mut rest = piece.map_err(|_| CallAborted::ConnectionBroken)?;
            while !rest.is_empty() {
                let room = room().await?;
                let piece = rest.split_to(self.piece_bytes(rest.len()));
                last = self.arrival_time(last, piece.len());
                // The one who receives ends first.
                let _ = send.send(PacketInFlight { at: last, piece: Some(piece), room });
            }
        }
        let room = room().await?;
        let _ = send.send(PacketInFlight { at: self.arrival_time(last, 0), piece: None, room });
        Ok(())
    }

    async fn receive_pieces(
        &self,
        stage: CallStage,
        target: &mut Option<BodyWriter>,
        mut under_way: mpsc::UnboundedReceiver<PacketInFlight>,
        received: mpsc::UnboundedSender<OwnedSemaphorePermit>,
    ) -> Result<Transfer, CallAborted> {
        let Some(writer) = target.as_ref() else { return Ok(Transfer::ReaderGone) };
        let mut pieces = 0;
        loop {
            let next = async {
                let packet = under_way.recv().await?;
                self.wait_for_arrival(packet.at).await;
                Some(packet)
            };
            let packet = tokio::select! { biased;
                () = writer.closed() => return Ok(Transfer::ReaderGone),
                packet = next => packet,
            };
            // Who reads has failed, and says so itself.
            let Some(PacketInFlight { piece, room, .. }) = packet else { return std::future::pending().await };
            self.inject_fault(stage, pieces, piece.is_none()).await?;
            let Some(piece) = piece else { break };
            pieces += 1;
            let way = (self.link.0 as u64) << 32 | self.link.1 as u64;
            self.executor.state().trace.add_bytes(TraceEvent::Piece, way, &piece);
            if writer.send(piece).await.is_err() {
                return Ok(Transfer::ReaderGone);
            }
            let _ = received.send(room);
        }
        let ended = match target.take() {
            Some(writer) => writer.end().await,
            None => Ok(()),
        };
        Ok(if ended.is_ok() { Transfer::Complete } else { Transfer::ReaderGone })
    }

    /// Lets receipts pass, this way.
    async fn return_receipts(
        &self,
        mut received: mpsc::UnboundedReceiver<OwnedSemaphorePermit>,
    ) -> Result<(), CallAborted> {
        while let Some(room) = received.recv().await {
            self.wait_until_open().await;
            drop(room);
        }
        Ok(())
    }

    /// How many of so many bytes come next. Nobody is promised that pieces stay as they were made.
    fn piece_bytes(&self, bytes: usize) -> usize {
        let state = self.executor.state();
        let most = bytes.min(PIECE_BYTES_MAX);
        if state.rng.one_in(4) { 1 + state.rng.below(most) } else { most }
    }
}

/// A piece under way, or the end.
struct PacketInFlight {
    at: Duration,
    piece: Option<Bytes>,
    room: OwnedSemaphorePermit,
}
