//! One connection: batches out, acknowledgements in, until it is lost or left for another.
//!
//! Sending and hearing go on at the same time, so that neither side waits for the other to read. Each connection counts
//! its batches from 0; the first is the first of the window that is not acknowledged.
//!
//! A connection is left in order: nothing is sent after the last whole batch, this side is closed, and the acknowledgements
//! that are missing are heard, for a while. What is not acknowledged then is sent again on the next connection, the same
//! bytes with the same ids.
#![allow(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_wire::{FLUSH, Redirect, RedirectReason, ServerMessage};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::Config;
use crate::address_selector::AddressSelector;
use crate::connect::{NodeConnection, connect, read_message};
use crate::error::ConnectionError;
use crate::send_window::{SendAction, SendWindow};
use crate::stop::wait_for_stop;

/// When sending fails, what the node said before is worth so long a wait.
const FINAL_READ_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a silent node is looked at, as a part of the time that it may be silent.
const CHECKS_PER_TIMEOUT: u32 = 8;

/// What a connection works with.
pub(crate) struct Session<'a> {
    pub(crate) config: &'a Config,
    pub(crate) env: &'a Env,
    pub(crate) window: &'a SendWindow,
    /// A node may be silent for so long.
    pub(crate) ack_timeout: Duration,
    /// The number of the first batch.
    pub(crate) first_batch: u64,
    pub(crate) sent: AtomicU64,
}

/// How a connection ended.
pub(crate) struct SessionEnd {
    pub(crate) error: ConnectionError,
    /// The node that it was left for.
    pub(crate) next: Option<NextNode>,
}

/// A node that took a hello.
pub(crate) type NextNode = (String, NodeConnection);

impl Session<'_> {
    /// Ships until the connection is lost or left.
    pub(crate) async fn run(&self, connected: NodeConnection, route: &mut AddressSelector) -> SessionEnd {
        let NodeConnection { mut socket, frame_bytes_max } = connected;
        let (mut hearing, sending) = socket.split();
        let (tell, mut told) = watch::channel(None);
        let (leave, leaving) = watch::channel(false);
        let mut hear = std::pin::pin!(self.receive_acks(&mut hearing, tell));
        let mut send = std::pin::pin!(self.send_batches(sending, frame_bytes_max, leaving));
        let mut silence = std::pin::pin!(self.wait_for_ack_timeout());
        let mut follow = std::pin::pin!(self.wait_for_redirect(&mut told, route));
        let lost = tokio::select! {
            lost = &mut hear => lost,
            lost = &mut send => match lost {
                ConnectionError::Io(_) => {
                    let last = timeout(FINAL_READ_TIMEOUT, hear).await.ok();
                    last.filter(|last| matches!(last, ConnectionError::NodeFailed(_))).unwrap_or(lost)
                }
                lost => lost,
            },
            lost = &mut silence => lost,
            next = &mut follow => {
                leave.send_replace(true);
                let rest = async {
                    tokio::select! {
                        _ = &mut hear => {}
                        lost = &mut send => if matches!(lost, ConnectionError::Redirected) { hear.await; },
                    }
                };
                // Whatever is not acknowledged then is sent again.
                let _ = timeout(self.config.close_timeout, rest).await;
                return SessionEnd { error: ConnectionError::Redirected, next };
            }
        };
        SessionEnd { error: lost, next: None }
    }

    /// Sends what is in the window, from its first batch on, until sending fails or the connection is to be left.
    async fn send_batches(
        &self,
        mut socket: WriteHalf<'_>,
        frame_bytes_max: u32,
        mut left: watch::Receiver<bool>,
    ) -> ConnectionError {
        let mut number = self.first_batch;
        let mut flushed = false;
        loop {
            let next = tokio::select! {
                biased;
                () = wait_for_stop(&mut left) => {
                    // A bulk port has what it was sent taken by a store at once, as nothing follows that would hasten it.
                    let _ = socket.write_all(&FLUSH).await;
                    let _ = socket.shutdown().await;
                    return ConnectionError::Redirected;
                }
                next = self.window.next_action(number, flushed) => next,
            };
            let written = match &next {
                SendAction::Send(packed) if packed.frame.len() as u64 > u64::from(frame_bytes_max) => {
                    return ConnectionError::FrameTooLong { found: packed.frame.len(), max: frame_bytes_max };
                }
                SendAction::Send(packed) => {
                    number += 1;
                    // Before it is written: the acknowledgement may be here before the write returns.
                    self.sent.store(number - self.first_batch, Ordering::Release);
                    socket.write_all(&packed.frame).await
                }
                SendAction::Flush => socket.write_all(&FLUSH).await,
            };
            flushed = matches!(next, SendAction::Flush);
            if let Err(error) = written {
                return ConnectionError::Io(error);
            }
        }
    }

    /// Takes acknowledgements, and what is said of other nodes, until the node ends it.
    async fn receive_acks(&self, socket: &mut ReadHalf<'_>, tell: watch::Sender<Option<Redirect>>) -> ConnectionError {
        let mut heard = 0;
        loop {
            let told = match read_message(socket, ServerMessage::decode).await {
                Ok(told) => told,
                Err(lost) => return lost,
            };
            let (acked, failed) = match told {
                ServerMessage::Acked(acked) => (acked, None),
                ServerMessage::Failed { acked, text } => (acked, Some(text)),
                ServerMessage::Redirect(elsewhere) => {
                    tell.send_replace(Some(elsewhere));
                    continue;
                }
            };
            if acked < heard || acked > self.sent.load(Ordering::Acquire) {
                return ConnectionError::InvalidAck;
            }
            heard = acked;
            self.window.acked(self.first_batch + acked, self.env.clock.uptime());
            if let Some(text) = failed {
                return ConnectionError::NodeFailed(text);
            }
        }
    }

    /// Waits for a reason to leave: a node that has less to do and took a hello, or a goodbye.
    async fn wait_for_redirect(
        &self,
        told: &mut watch::Receiver<Option<Redirect>>,
        route: &mut AddressSelector,
    ) -> Option<NextNode> {
        while told.changed().await.is_ok() {
            let Some(elsewhere) = told.borrow_and_update().clone() else { continue };
            if elsewhere.reason() == RedirectReason::CLOSE {
                route.set_redirect_targets(elsewhere.addresses());
                return None;
            }
            for address in route.eligible_targets(elsewhere.addresses(), self.env.clock.uptime()) {
                match connect(&address, &self.config.labels).await {
                    Ok(connected) => {
                        route.record_redirect(self.env.clock.uptime());
                        return Some((address, connected));
                    }
                    Err(_) => route.eject(&address, self.env.clock.uptime()),
                }
            }
        }
        // The hearing has ended, and is looked after elsewhere.
        std::future::pending().await
    }

    /// Waits until the node has been silent for too long.
    async fn wait_for_ack_timeout(&self) -> ConnectionError {
        let started = self.env.clock.uptime();
        loop {
            sleep(self.ack_timeout / CHECKS_PER_TIMEOUT).await;
            let since = self.window.waiting_since().map(|since| since.max(started));
            if since.is_some_and(|since| self.env.clock.uptime().saturating_sub(since) >= self.ack_timeout) {
                return ConnectionError::AckTimeout(self.ack_timeout);
            }
        }
    }
}
