//! One connection: batches out, acknowledgements in, until it is lost or left for another.
//!
//! Sending and hearing go on at the same time, so that neither side waits for the other to read. Each connection counts
//! its batches from 0; the first is the first of the window that is not acknowledged.
//!
//! A connection is left in order: nothing is sent after the last whole batch, this side is closed, and the acknowledgements
//! that are missing are heard, for a while. What is not acknowledged then is sent again on the next connection, the same
//! bytes with the same ids.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_doors::Doors;
use bucksaw_wire::{Elsewhere, FLUSH, Told, Why};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::Config;
use crate::connect::{Connected, connect, read};
use crate::error::Lost;
use crate::route::Route;
use crate::window::{Next, Window};

/// When sending fails, what the node said before is worth so long a wait.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// How often a silent node is looked at, as a part of the time that it may be silent.
const LOOKS: u32 = 8;

/// What a connection works with.
pub(crate) struct Session<'a> {
    pub(crate) config: &'a Config,
    pub(crate) doors: &'a Doors,
    pub(crate) window: &'a Window,
    /// A node may be silent for so long.
    pub(crate) patience: Duration,
    /// The number of the first batch.
    pub(crate) base: u64,
    pub(crate) sent: AtomicU64,
}

/// How a connection ended.
pub(crate) struct Ended {
    pub(crate) lost: Lost,
    /// The node that it was left for.
    pub(crate) next: Option<Place>,
}

/// A node that took a hello.
pub(crate) type Place = (String, Connected);

impl Session<'_> {
    /// Ships until the connection is lost or left.
    pub(crate) async fn run(&self, connected: Connected, route: &mut Route) -> Ended {
        let Connected { mut socket, frame_bytes_max } = connected;
        let (mut hearing, sending) = socket.split();
        let (tell, mut told) = watch::channel(None);
        let (leave, left) = watch::channel(false);
        let mut hear = std::pin::pin!(self.hear(&mut hearing, tell));
        let mut send = std::pin::pin!(self.send(sending, frame_bytes_max, left));
        let mut silence = std::pin::pin!(self.silence());
        let mut follow = std::pin::pin!(self.follow(&mut told, route));
        let lost = tokio::select! {
            lost = &mut hear => lost,
            lost = &mut send => match lost {
                Lost::Io(_) => {
                    let last = timeout(LAST_WORDS_MAX, hear).await.ok();
                    last.filter(|last| matches!(last, Lost::Told(_))).unwrap_or(lost)
                }
                lost => lost,
            },
            lost = &mut silence => lost,
            next = &mut follow => {
                leave.send_replace(true);
                let rest = async {
                    tokio::select! {
                        _ = &mut hear => {}
                        lost = &mut send => if matches!(lost, Lost::Moved) { hear.await; },
                    }
                };
                // Whatever is not acknowledged then is sent again.
                let _ = timeout(self.config.leave_max, rest).await;
                return Ended { lost: Lost::Moved, next };
            }
        };
        Ended { lost, next: None }
    }

    /// Sends what is in the window, from its first batch on, until sending fails or the connection is to be left.
    async fn send(&self, mut socket: WriteHalf<'_>, frame_bytes_max: u32, mut left: watch::Receiver<bool>) -> Lost {
        let mut number = self.base;
        let mut flushed = false;
        loop {
            let next = tokio::select! {
                biased;
                _ = left.wait_for(|left| *left) => {
                    // A bulk port has what it was sent taken by a store at once, as nothing follows that would hasten it.
                    let _ = socket.write_all(&FLUSH).await;
                    let _ = socket.shutdown().await;
                    return Lost::Moved;
                }
                next = self.window.next(number, flushed) => next,
            };
            let written = match &next {
                Next::Send(packed) if packed.frame.len() as u64 > u64::from(frame_bytes_max) => {
                    return Lost::FrameLong { found: packed.frame.len(), max: frame_bytes_max };
                }
                Next::Send(packed) => {
                    number += 1;
                    // Before it is written: the acknowledgement may be here before the write returns.
                    self.sent.store(number - self.base, Ordering::Release);
                    socket.write_all(&packed.frame).await
                }
                Next::Flush => socket.write_all(&FLUSH).await,
            };
            flushed = matches!(next, Next::Flush);
            if let Err(error) = written {
                return Lost::Io(error);
            }
        }
    }

    /// Takes acknowledgements, and what is said of other nodes, until the node ends it.
    async fn hear(&self, socket: &mut ReadHalf<'_>, tell: watch::Sender<Option<Elsewhere>>) -> Lost {
        let mut heard = 0;
        loop {
            let told = match read(socket, Told::decode).await {
                Ok(told) => told,
                Err(lost) => return lost,
            };
            let (acked, failed) = match told {
                Told::Acked(acked) => (acked, None),
                Told::Failed { acked, text } => (acked, Some(text)),
                Told::Elsewhere(elsewhere) => {
                    tell.send_replace(Some(elsewhere));
                    continue;
                }
            };
            if acked < heard || acked > self.sent.load(Ordering::Acquire) {
                return Lost::Acks;
            }
            heard = acked;
            self.window.acked(self.base + acked, self.doors.clock.uptime());
            if let Some(text) = failed {
                return Lost::Told(text);
            }
        }
    }

    /// Waits for a reason to leave: a node that has less to do and took a hello, or a goodbye.
    async fn follow(&self, told: &mut watch::Receiver<Option<Elsewhere>>, route: &mut Route) -> Option<Place> {
        while told.changed().await.is_ok() {
            let Some(elsewhere) = told.borrow_and_update().clone() else { continue };
            if elsewhere.why() == Why::GOODBYE {
                route.name(elsewhere.addresses());
                return None;
            }
            for address in route.worth(elsewhere.addresses(), self.doors.clock.uptime()) {
                match connect(&address, &self.config.labels).await {
                    Ok(connected) => {
                        route.moved(self.doors.clock.uptime());
                        return Some((address, connected));
                    }
                    Err(_) => route.shun(&address, self.doors.clock.uptime()),
                }
            }
        }
        // The hearing has ended, and is looked after elsewhere.
        std::future::pending().await
    }

    /// Waits until the node has been silent for too long.
    async fn silence(&self) -> Lost {
        let started = self.doors.clock.uptime();
        loop {
            sleep(self.patience / LOOKS).await;
            let since = self.window.stuck_since().map(|since| since.max(started));
            if since.is_some_and(|since| self.doors.clock.uptime().saturating_sub(since) >= self.patience) {
                return Lost::Silent(self.patience);
            }
        }
    }
}
