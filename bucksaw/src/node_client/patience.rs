//! How long to wait for a node.
//!
//! A node may be silent for a minute because a count is slow, or for hours because a tail has no match. A stopped
//! process and a port of another program are silent, too. So after [`SILENCE_MAX`] the client requests `/-/healthy` on
//! a second connection. If any HTTP response arrives, the wait continues.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use bytes::Bytes;
use hyper::Request;

use super::request::{NodeEndpoint, send, target};
use crate::print::human_seconds;

/// Silence after which the health of a node is checked.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Time limit of a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of a wait for one node.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    node: NodeEndpoint,
    /// The time limit of the user.
    timeout: Option<Duration>,
    started: Instant,
}

impl Patience {
    /// Limits that begin now.
    pub(super) fn new(node: NodeEndpoint, timeout: Option<Duration>) -> Self {
        Self { node, timeout, started: Instant::now() }
    }

    /// The same limits, begun anew.
    pub(super) fn renewed(&self) -> Self {
        Self::new(self.node.clone(), self.timeout)
    }

    /// Waits for something that the node does. Fails if the time limit passes, or if the node does not answer at all.
    pub(super) async fn wait<T>(&self, what: impl Future<Output = T>) -> anyhow::Result<T> {
        let mut what = pin!(what);
        loop {
            let left = self.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
            let silence = left.map_or(SILENCE_MAX, |left| left.min(SILENCE_MAX));
            if let Ok(done) = tokio::time::timeout(silence, &mut what).await {
                return Ok(done);
            }
            let left = self.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.timed_out());
            }
            self.check_health(left.map_or(HEALTH_TIMEOUT, |left| left.min(HEALTH_TIMEOUT))).await?;
        }
    }

    async fn check_health(&self, limit: Duration) -> anyhow::Result<()> {
        let request = Request::get(target(&self.node.addr, "/-/healthy")?);
        match tokio::time::timeout(limit, send(&self.node, request, "*/*", Bytes::new())).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) if self.timeout.is_some_and(|timeout| timeout <= self.started.elapsed()) => Err(self.timed_out()),
            Err(_) => bail!(
                "{} accepts connections and does not answer: is it a node, and is its process stopped? check --addr",
                self.node.addr
            ),
        }
    }

    fn timed_out(&self) -> anyhow::Error {
        let limit = human_seconds(self.timeout.unwrap_or_default().as_secs_f64());
        anyhow!(
            "no complete answer from {} within {limit} (--timeout): check --addr and 'bucksaw status', or allow more time",
            self.node.addr
        )
    }
}
