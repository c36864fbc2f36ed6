//! Keeping a connection to some node, and the window moving over it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bucksaw_doors::Doors;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::Config;
use crate::backoff::Backoff;
use crate::connect::{Connected, connect};
use crate::error::Lost;
use crate::route::Route;
use crate::session::{Ended, Session};
use crate::window::Window;

/// The least time between two log lines about the same trouble.
const WARN_APART: Duration = Duration::from_secs(10);

/// The patience with a silent node grows up to so many times.
const PATIENCE_GROWTH: u32 = 10;

pub(crate) struct Link<'a> {
    config: &'a Config,
    doors: &'a Doors,
    window: &'a Window,
    route: Route,
    backoff: Backoff,
    patience: Duration,
    connected: u64,
    /// Since when there is no connection, when that was said.
    lost_at: Option<Duration>,
    warned_at: Option<Duration>,
}

impl<'a> Link<'a> {
    pub(crate) fn new(config: &'a Config, doors: &'a Doors, window: &'a Window) -> Self {
        let backoff = Backoff::new(config.backoff_min, config.backoff_max, config.to.len());
        let route = Route::new(config, &*doors.entropy);
        let patience = config.silence_max;
        Self { config, doors, window, route, backoff, patience, connected: 0, lost_at: None, warned_at: None }
    }

    /// Runs until the window is drained; returns how often the connection was made again.
    pub(crate) async fn run(mut self) -> u64 {
        let mut next = None;
        loop {
            let (address, connected) = match next.take() {
                Some((address, connected)) => (address, Some(connected)),
                None => (self.route.next(self.now()), None),
            };
            let window = self.window;
            let ended = tokio::select! {
                biased;
                () = window.drained() => None,
                ended = self.ship(&address, connected) => Some(ended),
            };
            let Some(ended) = ended else { return self.connected.saturating_sub(1) };
            let wait = self.after(&address, &ended);
            self.note_lost(&address, &ended.lost, wait);
            next = ended.next;
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// Connects, unless that is done, and ships until the connection is lost or left.
    async fn ship(&mut self, address: &str, connected: Option<Connected>) -> Ended {
        let connected = match connected {
            Some(connected) => connected,
            None => match connect(address, &self.config.labels).await {
                Ok(connected) => connected,
                Err(lost) => return Ended { lost, next: None },
            },
        };
        self.note_connected(address);
        let (base, patience, sent) = (self.window.first(), self.patience, AtomicU64::new(0));
        let session = Session { config: self.config, doors: self.doors, window: self.window, patience, base, sent };
        let ended = session.run(connected, &mut self.route).await;
        if self.window.first() > base {
            self.backoff.reset();
            self.route.useful(address);
            self.patience = self.config.silence_max;
        } else if matches!(ended.lost, Lost::Silent(_)) {
            self.patience = (self.patience * 2).min(self.config.silence_max * PATIENCE_GROWTH);
        }
        ended
    }

    /// Takes note of how a connection ended; returns how long to wait before the next.
    fn after(&mut self, address: &str, ended: &Ended) -> Duration {
        if ended.next.is_some() {
            return Duration::ZERO;
        }
        let now = self.now();
        self.route.shun(address, now);
        if let Lost::Busy(others) = &ended.lost {
            self.route.name(others);
        }
        // What was said of others is tried at once, a few times.
        if self.route.is_named(now) { Duration::ZERO } else { self.backoff.next(self.doors.entropy.next_u64()) }
    }

    fn now(&self) -> Duration {
        self.doors.clock.uptime()
    }

    fn note_connected(&mut self, address: &str) {
        self.connected += 1;
        if let Some(lost_at) = self.lost_at.take() {
            let seconds = self.now().saturating_sub(lost_at).as_secs_f64();
            info!(address, seconds, "connected again");
        }
    }

    fn note_lost(&mut self, address: &str, lost: &Lost, wait: Duration) {
        if matches!(lost, Lost::Moved) {
            info!(address, "left the node: others have less to do");
            return;
        }
        self.window.set_trouble(format!("{address}: {lost}"));
        let now = self.now();
        if self.warned_at.is_none_or(|at| now.saturating_sub(at) >= WARN_APART) {
            self.warned_at = Some(now);
            self.lost_at.get_or_insert(now);
            warn!(address, reason = %lost, next_try_seconds = wait.as_secs_f64(), "no connection to the node");
        }
    }
}
