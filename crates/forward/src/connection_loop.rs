//! Keeps a connection to some node until the send window is drained.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bucksaw_env::{Env, LogRateLimiter};
use bucksaw_steering::AddressSelector;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::Config;
use crate::backoff::Backoff;
use crate::connect::{NodeConnection, connect};
use crate::error::ConnectionError;
use crate::send_window::SendWindow;
use crate::session::{Session, SessionEnd};

/// The minimum time between two warnings about lost connections.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The ack timeout grows to at most this many times its configured value.
const ACK_TIMEOUT_FACTOR_MAX: u32 = 10;

pub(crate) struct ConnectionLoop<'a> {
    config: &'a Config,
    env: &'a Env,
    window: &'a SendWindow,
    selector: AddressSelector,
    backoff: Backoff,
    ack_timeout: Duration,
    connections_made: u64,
    /// When the connection was lost, if that was logged.
    lost_at: Option<Duration>,
    lost_log: LogRateLimiter,
}

impl<'a> ConnectionLoop<'a> {
    pub(crate) fn new(config: &'a Config, env: &'a Env, window: &'a SendWindow) -> Self {
        window.connection.start(env.clock.uptime());
        let addresses = config.addresses.clone();
        let backoff = Backoff::new(config.backoff_min, config.backoff_max, addresses.len());
        let selector = match config.shuffle {
            true => AddressSelector::shuffled(addresses, &*env.entropy),
            false => AddressSelector::new(addresses),
        };
        Self {
            config,
            env,
            window,
            selector,
            backoff,
            ack_timeout: config.ack_timeout,
            connections_made: 0,
            lost_at: None,
            lost_log: LogRateLimiter::every(WARN_INTERVAL),
        }
    }

    /// Runs until the window is drained; returns the number of reconnects.
    pub(crate) async fn run(mut self) -> u64 {
        let mut next = None;
        loop {
            let (address, connection) = match next.take() {
                Some((address, connection)) => (address, Some(connection)),
                None => (self.selector.next_address(self.now()), None),
            };
            let window = self.window;
            let ended = tokio::select! {
                biased;
                () = window.wait_drained() => return self.connections_made.saturating_sub(1),
                ended = self.ship(&address, connection) => ended,
            };
            let delay = self.handle_end(&address, &ended);
            self.log_lost(&address, &ended.error, delay);
            next = ended.next;
            if !delay.is_zero() {
                sleep(delay).await;
            }
        }
    }

    /// Connects, unless a connection is given, and ships until the connection ends.
    async fn ship(&mut self, address: &str, connection: Option<NodeConnection>) -> SessionEnd {
        let connection = match connection {
            Some(connection) => connection,
            None => match connect(address, &self.config.labels, self.config.credentials()).await {
                Ok(connection) => connection,
                Err(error) => return SessionEnd { error, next: None },
            },
        };
        self.window.connection.connected(address, self.now());
        self.log_connected(address);
        let (first_batch, ack_timeout, sent) = (self.window.first_batch(), self.ack_timeout, AtomicU64::new(0));
        let session =
            Session { config: self.config, env: self.env, window: self.window, ack_timeout, first_batch, sent };
        let ended = session.run(connection, &mut self.selector).await;
        self.window.connection.ended(self.now());
        if self.window.first_batch() > first_batch {
            self.backoff.reset();
            self.selector.record_success(address);
            self.ack_timeout = self.config.ack_timeout;
        } else if matches!(ended.error, ConnectionError::AckTimeout(_)) {
            self.ack_timeout = (self.ack_timeout * 2).min(self.config.ack_timeout * ACK_TIMEOUT_FACTOR_MAX);
        }
        ended
    }

    /// Ejects the address of an ended connection; returns the delay before the next attempt.
    fn handle_end(&mut self, address: &str, ended: &SessionEnd) -> Duration {
        if ended.next.is_some() {
            return Duration::ZERO;
        }
        let now = self.now();
        self.selector.eject(address, now);
        if let ConnectionError::Busy(targets) = &ended.error {
            self.selector.set_redirect_targets(targets);
        }
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
            info!(address, seconds, "reconnected");
        }
    }

    fn log_lost(&mut self, address: &str, error: &ConnectionError, delay: Duration) {
        match error {
            ConnectionError::Redirected => return info!(address, "moved to a less loaded node"),
            ConnectionError::Busy(_) if delay.is_zero() => {
                return info!(address, "the node is overloaded: trying another");
            }
            _ => {}
        }
        self.window.set_last_error(format!("{address}: {error}"));
        let now = self.now();
        if let Some(suppressed) = self.lost_log.check(now) {
            self.lost_at.get_or_insert(now);
            warn!(address, reason = %error, suppressed, next_try_seconds = delay.as_secs_f64(), "no connection to the node");
        }
    }
}
