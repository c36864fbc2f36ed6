//! One connection: sends batches and receives acknowledgements until the connection is lost or the agent moves.
//!
//! Both directions run at the same time, so no side waits for the other to read. Each connection counts its batches
//! from 0, beginning with the first unacknowledged batch of the window.
//!
//! To move, the agent sends nothing after the last whole batch, closes its side, and receives the missing acknowledgements
//! until a timeout. Unacknowledged batches are sent again on the next connection, with the same bytes and ids.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::convert::Infallible;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::{Env, wait_for_stop};
use bucksaw_steering::AddressSelector;
use bucksaw_wire::{FLUSH, Redirect, RedirectReason, ServerMessage, WireVersion, encode_labels};
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::Config;
use crate::batch_builder::ShippedBatch;
use crate::connect::{NodeConnection, connect, read_message};
use crate::error::ConnectionError;
use crate::node_stream::NodeStream;
use crate::send_window::{SendAction, SendWindow};

/// How long the agent waits for the node's last message after sending has failed.
const FINAL_READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes from which batches are written: each write may wake the node.
const WRITE_BYTES: usize = 256 << 10;

/// Bytes of one read: many acknowledgements.
const READ_BYTES: usize = 1 << 10;

/// How often the agent reports its state to the node.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The parameters of one connection.
pub(crate) struct Session<'a> {
    pub(crate) config: &'a Config,
    pub(crate) env: &'a Env,
    pub(crate) window: &'a SendWindow,
    /// How long the node may send no acknowledgement.
    pub(crate) ack_timeout: Duration,
    /// The window's number of the first batch.
    pub(crate) first_batch: u64,
    pub(crate) sent: AtomicU64,
}

/// How a connection ended.
pub(crate) struct SessionEnd {
    pub(crate) error: ConnectionError,
    /// The node to which the agent moves.
    pub(crate) next: Option<NextNode>,
}

/// A part of what is written at once.
enum OutgoingPart {
    Message(Vec<u8>),
    Batch(Arc<ShippedBatch>),
}

impl OutgoingPart {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Message(bytes) => bytes,
            Self::Batch(batch) => &batch.frame,
        }
    }
}

/// A node that accepted a hello.
pub(crate) type NextNode = (String, NodeConnection);

impl Session<'_> {
    /// Ships until the connection ends.
    pub(crate) async fn run(&self, connected: NodeConnection, selector: &mut AddressSelector) -> SessionEnd {
        let NodeConnection { socket, frame_bytes_max, version } = connected;
        let (reader, writer) = tokio::io::split(socket);
        let mut reader = BufReader::with_capacity(READ_BYTES, reader);
        let (redirects, mut redirected) = watch::channel(None);
        let (leave, leaving) = watch::channel(false);
        let (reports, next_report) = mpsc::channel(1);
        let mut report = std::pin::pin!(self.report(version, reports));
        let mut receive = std::pin::pin!(self.receive_acks(&mut reader, redirects));
        let mut send = std::pin::pin!(self.send_batches(writer, frame_bytes_max, version, leaving, next_report));
        let mut ack_timeout = std::pin::pin!(self.wait_for_ack_timeout());
        let mut redirect = std::pin::pin!(self.wait_for_redirect(&mut redirected, selector));
        let error = tokio::select! {
            error = &mut receive => error,
            error = &mut send => match error {
                ConnectionError::Io(_) => {
                    let last = timeout(FINAL_READ_TIMEOUT, receive).await.ok();
                    last.filter(|last| matches!(last, ConnectionError::NodeFailed(_))).unwrap_or(error)
                }
                error => error,
            },
            error = &mut ack_timeout => error,
            never = &mut report => match never {},
            next = &mut redirect => {
                leave.send_replace(true);
                let rest = async {
                    tokio::select! {
                        _ = &mut receive => {}
                        error = &mut send => if matches!(error, ConnectionError::Redirected) { receive.await; },
                    }
                };
                // Unacknowledged batches are sent again.
                let _ = timeout(self.config.close_timeout, rest).await;
                return SessionEnd { error: ConnectionError::Redirected, next };
            }
        };
        SessionEnd { error, next: None }
    }

    /// Sends the window from its first batch until sending fails or the agent moves.
    async fn send_batches(
        &self,
        mut socket: WriteHalf<NodeStream>,
        frame_bytes_max: u32,
        version: WireVersion,
        mut leaving: watch::Receiver<bool>,
        mut reports: mpsc::Receiver<Vec<u8>>,
    ) -> ConnectionError {
        let mut number = self.first_batch;
        let mut labels = Arc::new(self.config.labels.clone());
        let mut is_flushed = false;
        loop {
            let next = tokio::select! {
                biased;
                () = wait_for_stop(&mut leaving) => {
                    // Without the flush a `bulk` port would acknowledge the last batches only after the age limit.
                    let _ = socket.write_all(&FLUSH).await;
                    let _ = socket.shutdown().await;
                    return ConnectionError::Redirected;
                }
                Some(report) = reports.recv() => {
                    if let Err(error) = send(&mut socket, &[OutgoingPart::Message(report)]).await {
                        return error.into();
                    }
                    continue;
                }
                next = self.window.next_action(number, is_flushed) => next,
            };
            is_flushed = matches!(next, SendAction::Flush);
            let (mut outgoing, mut bytes) = (Vec::new(), 0);
            let mut ready = match next {
                SendAction::Send(batch) => Some(batch),
                SendAction::Dropped => return ConnectionError::BatchesDropped,
                SendAction::Flush => {
                    outgoing.push(OutgoingPart::Message(FLUSH.to_vec()));
                    None
                }
            };
            // Many small batches are written at once.
            while let Some(batch) = ready {
                if batch.frame.len() as u64 > u64::from(frame_bytes_max) {
                    return ConnectionError::FrameTooLong { found: batch.frame.len(), max: frame_bytes_max };
                }
                if batch.labels != labels {
                    if version < WireVersion::LABELS {
                        return ConnectionError::NodeTooOld(version);
                    }
                    outgoing.push(OutgoingPart::Message(encode_labels(&batch.labels)));
                    labels = Arc::clone(&batch.labels);
                }
                number += 1;
                bytes += batch.frame.len();
                outgoing.push(OutgoingPart::Batch(batch));
                ready = if bytes < WRITE_BYTES { self.window.batch(number) } else { None };
            }
            // Counted before the write, because the acknowledgement may arrive before the write returns.
            self.sent.store(number - self.first_batch, Ordering::Release);
            if let Err(error) = send(&mut socket, &outgoing).await {
                return error.into();
            }
        }
    }

    /// Gives the sender the state of the agent, at once and then at intervals, if the node knows reports.
    async fn report(&self, version: WireVersion, reports: mpsc::Sender<Vec<u8>>) -> Infallible {
        if version < WireVersion::REPORTS {
            return std::future::pending().await;
        }
        loop {
            let (monitor, info) = (self.config.monitor.clone(), self.config.info.clone());
            // The reading thread may hold the lock for a while.
            let Ok(Some(report)) = spawn_blocking(move || monitor.report(&info)).await else { break };
            if reports.send(report.encode()).await.is_err() {
                break;
            }
            sleep(REPORT_INTERVAL).await;
        }
        std::future::pending().await
    }

    /// Receives acknowledgements and redirects until the node closes the connection.
    async fn receive_acks(
        &self,
        socket: &mut BufReader<ReadHalf<NodeStream>>,
        redirects: watch::Sender<Option<Redirect>>,
    ) -> ConnectionError {
        let mut acked_before = 0;
        loop {
            let message = match read_message(socket, ServerMessage::decode).await {
                Ok(message) => message,
                Err(error) => return error,
            };
            let (acked, failed) = match message {
                ServerMessage::Acked(acked) => (acked, None),
                ServerMessage::Failed { acked, text } => (acked, Some(text)),
                ServerMessage::Redirect(redirect) => {
                    redirects.send_replace(Some(redirect));
                    continue;
                }
            };
            if acked < acked_before || acked > self.sent.load(Ordering::Acquire) {
                return ConnectionError::InvalidAck;
            }
            acked_before = acked;
            self.window.acked(self.first_batch + acked, self.env.clock.uptime());
            if let Some(text) = failed {
                return ConnectionError::NodeFailed(text);
            }
        }
    }

    /// Resolves when the agent should move: another node accepted a hello, or this node closes the connection.
    async fn wait_for_redirect(
        &self,
        redirected: &mut watch::Receiver<Option<Redirect>>,
        selector: &mut AddressSelector,
    ) -> Option<NextNode> {
        while redirected.changed().await.is_ok() {
            let Some(redirect) = redirected.borrow_and_update().clone() else { continue };
            if redirect.reason() == RedirectReason::CLOSE {
                selector.set_redirect_targets(redirect.addresses());
                return None;
            }
            for address in selector.eligible_targets(redirect.addresses(), self.env.clock.uptime()) {
                match connect(&address, &self.config.labels, self.config.credentials()).await {
                    Ok(connected) => {
                        selector.record_move(self.env.clock.uptime());
                        return Some((address, connected));
                    }
                    Err(_) => selector.eject(&address, self.env.clock.uptime()),
                }
            }
        }
        // The receiving half has ended; its owner handles that.
        std::future::pending().await
    }

    /// Resolves when the node has sent no acknowledgement for the ack timeout.
    async fn wait_for_ack_timeout(&self) -> ConnectionError {
        self.window.wait_stalled(&*self.env.clock, self.env.clock.uptime(), self.ack_timeout).await;
        ConnectionError::AckTimeout(self.ack_timeout)
    }
}

/// Writes all bytes, and sends them also over TLS.
async fn send(socket: &mut WriteHalf<NodeStream>, parts: &[OutgoingPart]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part.bytes())).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        match socket.write_vectored(rest).await? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut rest, count),
        }
    }
    socket.flush().await
}
