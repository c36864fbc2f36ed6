//! Keeping a connection to some node, and the window moving over it.
//!
//! Sending and hearing go on at the same time, so that neither side waits for the other to read. Each connection counts
//! its batches from 0; the first is the first of the window that is not acknowledged.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_doors::Doors;
use bucksaw_wire::{FLUSH, Told};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::Config;
use crate::backoff::Backoff;
use crate::connect::{Connected, connect, read};
use crate::error::Lost;
use crate::window::{Next, Window};

/// The least time between two log lines about the same trouble.
const WARN_APART: Duration = Duration::from_secs(10);

/// When sending fails, what the node said before is worth so long a wait.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// How often a silent node is looked at, as a part of the time that it may be silent.
const LOOKS: u32 = 8;

/// The patience with a silent node grows up to so many times.
const PATIENCE_GROWTH: u32 = 10;

pub(crate) struct Link<'a> {
    config: &'a Config,
    doors: &'a Doors,
    window: &'a Window,
    backoff: Backoff,
    patience: Duration,
    tries: usize,
    connected: u64,
    /// Since when there is no connection, when that was said.
    lost_at: Option<Duration>,
    warned_at: Option<Duration>,
}

impl<'a> Link<'a> {
    pub(crate) fn new(config: &'a Config, doors: &'a Doors, window: &'a Window) -> Self {
        let backoff = Backoff::new(config.backoff_min, config.backoff_max, config.to.len());
        let patience = config.silence_max;
        Self { config, doors, window, backoff, patience, tries: 0, connected: 0, lost_at: None, warned_at: None }
    }

    /// Runs until the window is drained; returns how often the connection was made again.
    pub(crate) async fn run(mut self) -> u64 {
        loop {
            let address = self.config.to.get(self.tries % self.config.to.len().max(1)).map_or("", String::as_str);
            let shipped = tokio::select! {
                biased;
                () = self.window.drained() => Ok(()),
                shipped = self.ship(address) => shipped.map(|never| match never {}),
            };
            let Err(lost) = shipped else { return self.connected.saturating_sub(1) };
            self.tries += 1;
            let wait = self.backoff.next(self.doors.entropy.next_u64());
            self.note_lost(address, &lost, wait);
            sleep(wait).await;
        }
    }

    /// Connects, and ships until the connection is lost.
    async fn ship(&mut self, address: &str) -> Result<Infallible, Lost> {
        let Connected { mut socket, frame_bytes_max } = connect(address, &self.config.labels).await?;
        self.note_connected(address);
        let base = self.window.first();
        let sent = AtomicU64::new(0);
        let (mut hearing, sending) = socket.split();
        let lost = {
            let mut hear = std::pin::pin!(self.hear(&mut hearing, base, &sent));
            tokio::select! {
                lost = &mut hear => lost,
                lost = self.send(sending, base, frame_bytes_max, &sent) => match lost {
                    Lost::Io(_) => {
                        let last = timeout(LAST_WORDS_MAX, hear).await.ok();
                        last.filter(|last| matches!(last, Lost::Told(_))).unwrap_or(lost)
                    }
                    lost => lost,
                },
                lost = self.silence() => lost,
            }
        };
        if self.window.first() > base {
            self.backoff.reset();
            self.patience = self.config.silence_max;
        } else if matches!(lost, Lost::Silent(_)) {
            self.patience = (self.patience * 2).min(self.config.silence_max * PATIENCE_GROWTH);
        }
        Err(lost)
    }

    /// Sends what is in the window, from its first batch on, until sending fails.
    async fn send(&self, mut socket: WriteHalf<'_>, base: u64, frame_bytes_max: u32, sent: &AtomicU64) -> Lost {
        let mut number = base;
        let mut flushed = false;
        loop {
            let next = self.window.next(number, flushed).await;
            let written = match &next {
                Next::Send(packed) if packed.frame.len() as u64 > u64::from(frame_bytes_max) => {
                    return Lost::FrameLong { found: packed.frame.len(), max: frame_bytes_max };
                }
                Next::Send(packed) => {
                    number += 1;
                    // Before it is written: the acknowledgement may be here before the write returns.
                    sent.store(number - base, Ordering::Release);
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

    /// Takes acknowledgements until the node ends it.
    async fn hear(&self, socket: &mut ReadHalf<'_>, base: u64, sent: &AtomicU64) -> Lost {
        let mut heard = 0;
        loop {
            let told = match read(socket, Told::decode).await {
                Ok(told) => told,
                Err(lost) => return lost,
            };
            let (Told::Acked(acked) | Told::Failed { acked, .. }) = told;
            if acked < heard || acked > sent.load(Ordering::Acquire) {
                return Lost::Acks;
            }
            heard = acked;
            self.window.acked(base + acked, self.doors.clock.uptime());
            if let Told::Failed { text, .. } = told {
                return Lost::Told(text);
            }
        }
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

    fn note_connected(&mut self, address: &str) {
        self.connected += 1;
        if let Some(lost_at) = self.lost_at.take() {
            let seconds = self.doors.clock.uptime().saturating_sub(lost_at).as_secs_f64();
            info!(address, seconds, "connected again");
        }
    }

    fn note_lost(&mut self, address: &str, lost: &Lost, wait: Duration) {
        self.window.set_trouble(format!("{address}: {lost}"));
        let now = self.doors.clock.uptime();
        if self.warned_at.is_none_or(|at| now.saturating_sub(at) >= WARN_APART) {
            self.warned_at = Some(now);
            self.lost_at.get_or_insert(now);
            warn!(address, reason = %lost, next_try_seconds = wait.as_secs_f64(), "no connection to the node");
        }
    }
}
