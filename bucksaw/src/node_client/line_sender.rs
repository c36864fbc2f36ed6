//! Sends bodies of lines to a node, each until it is accepted.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::Value;

use super::{NodeClient, Refusal};
use crate::failure::print_error;

/// How long a body is sent again before the command fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// The delay before a body is sent again, if the node names none.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that a node may request.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Sends to one node. Several bodies may be on their way at the same time.
pub(crate) struct LineSender {
    client: NodeClient,
    /// Whether the node has accepted a body, which shows that its address is right.
    has_succeeded: Cell<bool>,
    /// Whether the user knows that the node does not accept bodies.
    is_reported: Cell<bool>,
}

impl LineSender {
    pub(crate) fn new(client: NodeClient) -> Self {
        Self { client, has_succeeded: Cell::new(false), is_reported: Cell::new(false) }
    }

    /// Sends a body until it is accepted; returns the number of its records. The key makes the records of all attempts the
    /// same ones.
    ///
    /// # Errors
    /// The refusal if it is final, or the last error once the body was sent for two minutes. An error of the first body, too,
    /// unless the node asks for a retry.
    pub(crate) async fn send(&self, path: &str, key: &str, body: Bytes) -> anyhow::Result<u64> {
        let started = Instant::now();
        loop {
            let error = match self.client.renewed().post_lines(path, key, body.clone()).await {
                Ok(answer) => {
                    self.has_succeeded.set(true);
                    self.is_reported.set(false);
                    let answer: Value =
                        serde_json::from_slice(&answer).context("the answer of the node is not JSON")?;
                    return Ok(answer.get("accepted").and_then(Value::as_u64).unwrap_or_default());
                }
                Err(error) => error,
            };
            let refusal = error.downcast_ref::<Refusal>();
            let may_pass = refusal.map_or(self.has_succeeded.get(), |refusal| !refusal.is_final());
            if !may_pass || started.elapsed() > GIVE_UP_AFTER {
                return Err(error);
            }
            if !self.is_reported.replace(true) {
                print_error(&format!("{error:#}: trying again for {} s", GIVE_UP_AFTER.as_secs()));
            }
            let delay = refusal.and_then(|refusal| refusal.retry_after).unwrap_or(RETRY_DELAY);
            tokio::time::sleep(delay.min(RETRY_DELAY_MAX)).await;
        }
    }
}
