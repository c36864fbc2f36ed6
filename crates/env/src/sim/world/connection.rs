//! Transports a call: connection, request, reply, and the faults of each.
//!
//! Each end detects the close when the close packet arrives, and then drops its bodies. That takes the usual delay, and longer
//! while the link is cut.
//!
//! ```text
//!   caller                                                          callee
//!   request ─► read ──► in flight, at most WINDOW_PIECES ─► write ──► IncomingCall::body
//!   reply ◄─── write ◄─ in flight, at most WINDOW_PIECES ◄─ read ◄─── Reply
//! ```
//! A piece is in flight until its receipt has passed the opposite link. So a body stops if its reader stops, and soon also if
//! only the opposite link is cut.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::call_fault::{CallFault, CallStage};
use super::executor::{Executor, WorldState};
use super::host_state::HostStatus;
use super::link_table::LinkId;
use super::process_id::ProcessId;
use super::run_hash::TraceEvent;
use crate::{Body, BodyWriter, IncomingCall, Reply};

/// Maximum pieces of one body in flight.
const WINDOW_PIECES: usize = 4;

/// Maximum bytes of a piece.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// The first retransmission delay; each further one is twice as long.
const RETRANSMIT_DELAY: Duration = Duration::from_millis(200);

/// The delay after the first unanswered connection attempt; each further one is twice as long.
const CONNECT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Connection attempts until a timeout: about two minutes in all, as on Linux.
const CONNECT_TRIES: u32 = 7;

/// Time until a machine without power is reported unreachable.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a connection outlives a peer without power that does not restart.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct OutgoingCall {
    pub(super) from: ProcessId,
    pub(super) to: SocketAddr,
    pub(super) name: String,
    pub(super) body: Body,
}

/// The caller's side of a connection.
struct CallerEnd {
    body: Body,
    caller: Option<oneshot::Sender<io::Result<Body>>>,
    reply_body: Option<BodyWriter>,
}

/// The callee's side of a connection.
struct CalleeEnd {
    body: Option<BodyWriter>,
    reply: oneshot::Receiver<io::Result<Body>>,
    reply_body: Body,
}

/// Why a call ended early.
enum CallAborted {
    ConnectionBroken,
    /// The caller has dropped its future or the reply.
    CallerGone,
}

/// How a transfer ended.
#[derive(PartialEq, Eq)]
enum Transfer {
    Complete,
    /// The reader was dropped.
    ReaderGone,
}

/// One direction of a connection.
struct HalfConnection {
    executor: Arc<Executor>,
    link: LinkId,
    fault: Option<CallFault>,
}

/// Transports a call until both ends are closed.
pub(super) async fn run_call(executor: Arc<Executor>, call: OutgoingCall, caller: oneshot::Sender<io::Result<Body>>) {
    let OutgoingCall { from, to, name, body } = call;
    let mut near = CallerEnd { body, caller: Some(caller), reply_body: None };
    let connected = tokio::select! { biased;
        () = caller_closed(&mut near.caller) => return,
        _ = wait_for_exit(&executor, from) => return,
        connected = connect(&executor, from, to) => connected,
    };
    let (forward, backward, callee) = match connected {
        Ok(connection) => connection,
        Err(error) => return reply_to_caller(near.caller, Err(error)),
    };
    let (writer, body) = Body::channel();
    let (reply_sender, reply) = Reply::channel();
    let mut far = CalleeEnd { body: Some(writer), reply, reply_body: Body::empty() };
    let mut incoming = Some(IncomingCall { name, body, reply: reply_sender });
    let aborted = tokio::select! { biased;
        status = wait_for_exit(&executor, from) => {
            drop(near);
            forward.close_after_crash(from, status).await;
            return;
        }
        status = wait_for_exit(&executor, callee) => {
            drop((far, incoming));
            backward.close_after_crash(callee, status).await;
            return;
        }
        exchanged = exchange(&forward, &backward, &mut near, &mut far, callee, &mut incoming) => exchanged.err(),
    };
    match aborted {
        None => {}
        Some(CallAborted::CallerGone) => {
            drop(near);
            forward.propagate_close().await;
        }
        Some(CallAborted::ConnectionBroken) => {
            let close_near = async {
                backward.propagate_close().await;
                drop(near);
            };
            let close_far = async {
                forward.propagate_close().await;
                drop((far, incoming));
            };
            tokio::join!(close_near, close_far);
        }
    }
}

/// Connects to the process that listens at `to`; returns both directions.
async fn connect(
    executor: &Arc<Executor>,
    from: ProcessId,
    to: SocketAddr,
) -> io::Result<(HalfConnection, HalfConnection, ProcessId)> {
    let host = {
        let state = executor.state();
        state.hosts.iter().position(|host| host.address.ip() == to.ip())
    };
    let Some(host) = host else {
        executor.sleep(UNREACHABLE_TIMEOUT).await;
        return Err(io::ErrorKind::HostUnreachable.into());
    };
    let forward = HalfConnection::new(executor, (from.host, host), [CallStage::Connect, CallStage::Request]);
    let backward = HalfConnection::new(executor, (host, from.host), [CallStage::Reply, CallStage::Answer]);
    forward.inject_fault(CallStage::Connect, 0, true).await.map_err(|_| io::ErrorKind::ConnectionReset)?;
    for attempt in 0..CONNECT_TRIES {
        if forward.is_delivered() {
            forward.delay().await;
            let (status, incarnation) = {
                let mut state = executor.state();
                let host = state.host(host);
                if host.address == to { (host.status, host.incarnation) } else { (HostStatus::Killed, 0) }
            };
            if status == HostStatus::PoweredOff {
                executor.sleep(UNREACHABLE_TIMEOUT).await;
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            if backward.is_delivered() {
                backward.delay().await;
                return match status {
                    HostStatus::Up => Ok((forward, backward, ProcessId { host, incarnation })),
                    _ => Err(io::ErrorKind::ConnectionRefused.into()),
                };
            }
        }
        executor.sleep(CONNECT_RETRY_DELAY * 2_u32.pow(attempt)).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Transports request and reply.
async fn exchange(
    forward: &HalfConnection,
    backward: &HalfConnection,
    near: &mut CallerEnd,
    far: &mut CalleeEnd,
    callee: ProcessId,
    incoming: &mut Option<IncomingCall>,
) -> Result<(), CallAborted> {
    forward.delay_in_order(0).await;
    // If the caller is dropped while the callee has no room for the call, that is detected below, a little later.
    deliver_call(forward, callee, incoming).await;
    let CallerEnd { body, caller, reply_body: near_reply } = near;
    let CalleeEnd { body: far_body, reply, reply_body: far_reply } = far;
    let request = async {
        if forward.transfer(CallStage::Request, body, far_body, backward).await? == Transfer::ReaderGone {
            backward.delay().await;
        }
        // Closes the body for its writer.
        *body = Body::empty();
        Ok(())
    };
    let response = async {
        let reply = tokio::select! { biased;
            () = caller_closed(caller) => return Err(CallAborted::CallerGone),
            reply = reply => reply,
        };
        backward.inject_fault(CallStage::Reply, 0, true).await?;
        backward.delay_in_order(0).await;
        let reply = match reply {
            Ok(reply) => reply.map_err(|error| remote_error(&error)),
            Err(_) => Err(io::Error::other("the call was not answered")),
        };
        *far_reply = match reply {
            Ok(body) => body,
            Err(error) => {
                reply_to_caller(caller.take(), Err(error));
                return Ok(());
            }
        };
        let (writer, body) = Body::channel();
        *near_reply = Some(writer);
        reply_to_caller(caller.take(), Ok(body));
        match backward.transfer(CallStage::Answer, far_reply, near_reply, forward).await? {
            Transfer::Complete => Ok(()),
            Transfer::ReaderGone => Err(CallAborted::CallerGone),
        }
    };
    tokio::try_join!(biased; request, response).map(|_| ())
}

/// Adds the call to the callee's mailbox as soon as there is room.
async fn deliver_call(forward: &HalfConnection, callee: ProcessId, incoming: &mut Option<IncomingCall>) {
    while let Some(call) = incoming.take() {
        let pushed = {
            let mut state = forward.executor.state();
            state.trace.add_bytes(TraceEvent::Call, callee.host as u64, call.name.as_bytes());
            // If the callee has just ended, the connection ends before the next try.
            if state.is_running(Some(callee)) { state.host(callee.host).calls.push(call) } else { Err(call) }
        };
        match pushed {
            Ok(waker) => waker.into_iter().for_each(std::task::Waker::wake),
            Err(call) => {
                *incoming = Some(call);
                forward.executor.sleep(CONNECT_RETRY_DELAY).await;
            }
        }
    }
}

/// Resolves when the caller has dropped its future.
async fn caller_closed(caller: &mut Option<oneshot::Sender<io::Result<Body>>>) {
    match caller {
        Some(caller) => caller.closed().await,
        None => std::future::pending().await,
    }
}

fn reply_to_caller(caller: Option<oneshot::Sender<io::Result<Body>>>, reply: io::Result<Body>) {
    if let Some(caller) = caller {
        // The caller may have been dropped.
        let _ = caller.send(reply);
    }
}

/// An error as the caller receives it.
fn remote_error(error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Unsupported => io::Error::new(io::ErrorKind::Unsupported, error.to_string()),
        _ => io::Error::other(error.to_string()),
    }
}

/// Resolves when a process has ended, with the status of its host.
async fn wait_for_exit(executor: &Executor, process: ProcessId) -> HostStatus {
    executor.wait_until(|state| !state.is_running(Some(process))).await;
    executor.state().host(process.host).status
}

impl HalfConnection {
    fn new(executor: &Arc<Executor>, link: LinkId, stages: [CallStage; 2]) -> Self {
        let fault = {
            let state = executor.state();
            CallFault::sample(&state.rng, state.links.conditions(link), stages)
        };
        Self { executor: Arc::clone(executor), link, fault }
    }

    fn is_delivered(&self) -> bool {
        self.executor.state().is_delivered(self.link)
    }

    /// Waits for the delay of one packet.
    async fn delay(&self) {
        let delay = self.executor.state().delay(self.link);
        self.executor.sleep(delay).await;
    }

    /// Waits until `bytes` bytes sent now have arrived, including retransmissions.
    async fn delay_in_order(&self, bytes: usize) {
        let at = self.arrival_time(Duration::ZERO, bytes);
        self.wait_for_arrival(at).await;
    }

    /// When `bytes` bytes sent now arrive, after those that arrive at `before`.
    fn arrival_time(&self, before: Duration, bytes: usize) -> Duration {
        let state = self.executor.state();
        let conditions = state.links.conditions(self.link);
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / conditions.bytes_per_second.max(1);
        let mut at = state.now + state.delay(self.link);
        let mut retransmit_delay = RETRANSMIT_DELAY;
        while state.rng.with_probability(conditions.loss.min(0.9)) {
            at += retransmit_delay;
            retransmit_delay *= 2;
        }
        at.max(before) + Duration::from_nanos(nanos)
    }

    /// Waits until `at`, and then until the link is open.
    async fn wait_for_arrival(&self, at: Duration) {
        let now = self.executor.state().now;
        if at > now {
            self.executor.sleep(at - now).await;
        }
        self.wait_until_open().await;
    }

    /// Waits until the link is not cut, and then for the retransmission.
    async fn wait_until_open(&self) {
        let is_open = |state: &WorldState| !state.links.is_cut(self.link);
        while !is_open(&self.executor.state()) {
            self.executor.wait_until(is_open).await;
            let delay = self.executor.state().rng.duration_up_to(RETRANSMIT_DELAY);
            self.executor.sleep(delay).await;
        }
    }

    /// Waits until the close has arrived at the other end.
    async fn propagate_close(&self) {
        self.delay_in_order(0).await;
    }

    /// The same after a crash. A machine without power sends no close: it is detected at the restart or by a timeout.
    async fn close_after_crash(&self, process: ProcessId, status: HostStatus) {
        if status != HostStatus::Killed {
            tokio::select! { biased;
                () = self.executor.wait_until(|state| state.has_restarted(process)) => {}
                () = self.executor.sleep(KEEPALIVE_TIMEOUT) => {}
            }
        }
        self.propagate_close().await;
    }

    /// Causes the fault of this direction if it is due here.
    async fn inject_fault(&self, stage: CallStage, pieces: usize, last: bool) -> Result<(), CallAborted> {
        match self.fault.as_ref().filter(|fault| fault.triggers_at(stage, pieces, last)) {
            None => Ok(()),
            Some(CallFault { stall: None, .. }) => Err(CallAborted::ConnectionBroken),
            Some(CallFault { stall: Some(time), .. }) => {
                self.executor.sleep(*time).await;
                Ok(())
            }
        }
    }

    /// Transports a body from one end to the other.
    async fn transfer(
        &self,
        stage: CallStage,
        source: &mut Body,
        target: &mut Option<BodyWriter>,
        receipts: &Self,
    ) -> Result<Transfer, CallAborted> {
        let (send, in_flight) = mpsc::unbounded_channel();
        let (received, to_return) = mpsc::unbounded_channel();
        let feed = async {
            tokio::try_join!(biased; self.send_pieces(source, send), receipts.return_receipts(to_return))?;
            // The receiving end decides when the transfer is complete.
            std::future::pending().await
        };
        tokio::select! { biased;
            transferred = self.receive_pieces(stage, target, in_flight, received) => transferred,
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
            // The writer failed: the connection breaks here.
            let mut rest = piece.map_err(|_| CallAborted::ConnectionBroken)?;
            while !rest.is_empty() {
                let room = room().await?;
                let piece = rest.split_to(self.piece_bytes(rest.len()));
                last = self.arrival_time(last, piece.len());
                // The receiving end is dropped first.
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
        mut in_flight: mpsc::UnboundedReceiver<PacketInFlight>,
        received: mpsc::UnboundedSender<OwnedSemaphorePermit>,
    ) -> Result<Transfer, CallAborted> {
        let Some(writer) = target.as_ref() else { return Ok(Transfer::ReaderGone) };
        let mut pieces = 0;
        loop {
            let next = async {
                let packet = in_flight.recv().await?;
                self.wait_for_arrival(packet.at).await;
                Some(packet)
            };
            let packet = tokio::select! { biased;
                () = writer.closed() => return Ok(Transfer::ReaderGone),
                packet = next => packet,
            };
            // The sending end has failed and ends the transfer.
            let Some(PacketInFlight { piece, room, .. }) = packet else { return std::future::pending().await };
            self.inject_fault(stage, pieces, piece.is_none()).await?;
            let Some(piece) = piece else { break };
            pieces += 1;
            let link = (self.link.0 as u64) << 32 | self.link.1 as u64;
            self.executor.state().trace.add_bytes(TraceEvent::Piece, link, &piece);
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

    /// Transports receipts in this direction.
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

    /// The length of the next piece of `bytes` bytes. Readers must not depend on the division into pieces.
    fn piece_bytes(&self, bytes: usize) -> usize {
        let state = self.executor.state();
        let bytes_max = bytes.min(PIECE_BYTES_MAX);
        if state.rng.one_in(4) { 1 + state.rng.below(bytes_max) } else { bytes_max }
    }
}

/// A piece in flight, or the end of the body.
struct PacketInFlight {
    at: Duration,
    piece: Option<Bytes>,
    room: OwnedSemaphorePermit,
}
