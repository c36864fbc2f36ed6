//! Keeping a connection to some node, and the window moving over it.
#![allow(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bucksaw_env::{Env, LogRateLimiter};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::Config;
use crate::address_selector::AddressSelector;
use crate::backoff::Backoff;
use crate::connect::{NodeConnection, connect};
use crate::error::ConnectionError;
use crate::send_window::SendWindow;
use crate::session::{Session, SessionEnd};

/// The least time between two log lines about the same trouble.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The patience with a silent node grows up to so many times.
const ACK_TIMEOUT_FACTOR_MAX: u32 = 10;

pub(crate) struct ConnectionLoop<'a> {
    config: &'a Config,
    env: &'a Env,
    window: &'a SendWindow,
    selector: AddressSelector,
    backoff: Backoff,
    ack_timeout: Duration,
    connections_made: u64,
    /// Since when there is no connection, when that was said.
    lost_at: Option<Duration>,
    lost_log: LogRateLimiter,
}

impl<'a> ConnectionLoop<'a> {
    pub(crate) fn new(config: &'a Config, env: &'a Env, window: &'a SendWindow) -> Self {
        let backoff = Backoff::new(config.backoff_min, config.backoff_max, config.addresses.len());
        let selector = AddressSelector::new(config, &*env.entropy);
        let ack_timeout = config.ack_timeout;
        Self {
            config,
            env,
            window,
            selector,
            backoff,
            ack_timeout,
            connections_made: 0,
            lost_at: None,
            lost_log: LogRateLimiter::every(WARN_INTERVAL),
        }
    }

    /// Runs until the window is drained; returns how often the connection was made again.
    pub(crate) async fn run(mut self) -> u64 {
        let mut next = None;
        loop {
            let (address, connected) = match next.take() {
                Some((address, connected)) => (address, Some(connected)),
                None => (self.selector.next_address(self.now()), None),
            };
            let window = self.window;
            let ended = tokio::select! {
                biased;
                () = window.wait_drained() => None,
                ended = self.ship(&address, connected) => Some(ended),
            };
            let Some(ended) = ended else { return self.connections_made.saturating_sub(1) };
            let wait = self.handle_end(&address, &ended);
            self.log_lost(&address, &ended.error, wait);
            next = ended.next;
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    /// Connects, unless that is done, and ships until the connection is lost or left.
    async fn ship(&mut self, address: &str, connected: Option<NodeConnection>) -> SessionEnd {
        let connected = match connected {
            Some(connected) => connected,
            None => match connect(address, &self.config.labels).await {
                Ok(connected) => connected,
                Err(lost) => return SessionEnd { error: lost, next: None },
            },
        };
        self.log_connected(address);
        let (first_batch, ack_timeout, sent) = (self.window.first_batch(), self.ack_timeout, AtomicU64::new(0));
        let session =
            Session { config: self.config, env: self.env, window: self.window, ack_timeout, first_batch, sent };
        let ended = session.run(connected, &mut self.selector).await;
        if self.window.first_batch() > first_batch {
            self.backoff.reset();
            self.selector.record_success(address);
            self.ack_timeout = self.config.ack_timeout;
        } else if matches!(ended.error, ConnectionError::AckTimeout(_)) {
            self.ack_timeout = (self.ack_timeout * 2).min(self.config.ack_timeout * ACK_TIMEOUT_FACTOR_MAX);
        }
        ended
    }

    /// Takes note of how a connection ended; returns how long to wait before the next.
    fn handle_end(&mut self, address: &str, ended: &SessionEnd) -> Duration {
        if ended.next.is_some() {
            return Duration::ZERO;
        }
        let now = self.now();
        self.selector.eject(address, now);
        if let ConnectionError::Busy(others) = &ended.error {
            self.selector.set_redirect_targets(others);
        }
        // What was said of others is tried at once, a few times.
        if self.selector.has_redirect_target(now) {
            Duration::ZERO
        } else {
            self.backoff.next(self.env.entropy.next_u64())
        }
    }

    fn now(&self) -> Duration {
        self.env.clock.uptime()
    }

    fn log_connected(&mut self, address: &str) {
        self.connections_made += 1;
        if let Some(lost_at) = self.lost_at.take() {
            let seconds = self.now().saturating_sub(lost_at).as_secs_f64();
            info!(address, seconds, "connected again");
        }
    }

    fn log_lost(&mut self, address: &str, lost: &ConnectionError, wait: Duration) {
        match lost {
            ConnectionError::Redirected => return info!(address, "left the node for a less loaded one"),
            ConnectionError::Busy(_) if wait.is_zero() => {
                return info!(address, "the node is overloaded: trying another");
            }
            _ => {}
        }
        self.window.set_last_error(format!("{address}: {lost}"));
        let now = self.now();
        if let Some(suppressed) = self.lost_log.check(now) {
            self.lost_at.get_or_insert(now);
            warn!(address, reason = %lost, suppressed, next_try_seconds = wait.as_secs_f64(), "no connection to the node");
        }
    }
}
