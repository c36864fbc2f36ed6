//! Notices the stop of a node, and how long ago it was.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock, wait_for_stop};
use tokio::sync::watch;

/// How long a client that keeps sending is read from after the stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest pause between two attempts after the stop.
const STOPPED_PAUSE_MAX: Duration = Duration::from_millis(10);

/// The stop, as one task sees it.
pub(crate) struct StopWatch {
    stop: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    /// When the stop was noticed.
    stopped_at: Option<Duration>,
}

impl StopWatch {
    pub(crate) fn new(stop: watch::Receiver<bool>, clock: Arc<dyn Clock>) -> Self {
        Self { stop, clock, stopped_at: None }
    }

    pub(crate) fn receiver(&self) -> watch::Receiver<bool> {
        self.stop.clone()
    }

    pub(crate) fn is_stopped(&mut self) -> bool {
        if self.stopped_at.is_none() && (*self.stop.borrow() || self.stop.has_changed().is_err()) {
            self.stopped_at = Some(self.clock.uptime());
        }
        self.stopped_at.is_some()
    }

    /// Whether a stop is older than [`DRAIN_TIMEOUT`].
    pub(crate) fn is_past_drain_timeout(&self) -> bool {
        self.stopped_at.is_some_and(|at| self.clock.uptime().saturating_sub(at) > DRAIN_TIMEOUT)
    }

    pub(crate) async fn wait(&mut self) {
        wait_for_stop(&mut self.stop).await;
    }

    /// Waits for `time`, or until the stop; after the stop for [`STOPPED_PAUSE_MAX`] at most.
    pub(crate) async fn pause(&mut self, time: Duration) {
        if self.is_stopped() {
            return tokio::time::sleep(time.min(STOPPED_PAUSE_MAX)).await;
        }
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = wait_for_stop(&mut self.stop) => {}
        }
    }
}
