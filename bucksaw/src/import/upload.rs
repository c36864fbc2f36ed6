//! Sends parts to a node, each until it is accepted.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bucksaw_record::Millis;
use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::parts::Part;
use crate::failure::print_error;
use crate::node_client::{NodeClient, Refusal};

/// How long a part is sent again before the import fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// The delay before a part is sent again, if the node names none.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that a node may request.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Sends parts to one node.
pub(super) struct Upload {
    client: NodeClient,
    /// The path of the call, with all that the records depend on but the time of their part.
    path: String,
    durability: &'static str,
    /// Whether the node has accepted a part, which shows that its address is right.
    has_succeeded: bool,
    /// Whether a part could not be sent, so that further parts would fail, too.
    pub(super) has_failed: bool,
}

impl Upload {
    /// Sends to this path, to which the durability and the time of each part are added.
    pub(super) fn new(client: NodeClient, path: String, durability: &'static str) -> Self {
        Self { client, path, durability, has_succeeded: false, has_failed: false }
    }

    /// Sends a part until it is accepted; returns the number of its records.
    pub(super) async fn send(&mut self, part: Part, at: Millis) -> anyhow::Result<u64> {
        // Other labels, another zone or another time are another batch.
        let call = format!("{}&batch_time={}", self.path, at.0);
        let hash = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(call.as_bytes()), &part.text);
        let key = format!("import {} {hash:016x}", part.offset);
        let path = format!("{call}&durability={}", self.durability);
        let body = Bytes::from(part.text);
        let started = Instant::now();
        let mut is_reported = false;
        loop {
            let sent = self.client.renewed().post_lines(&path, &key, body.clone()).await;
            let error = match sent {
                Ok(answer) => {
                    self.has_succeeded = true;
                    let answer: serde_json::Value =
                        serde_json::from_slice(&answer).context("the answer of the node is not JSON")?;
                    return Ok(answer.get("accepted").and_then(serde_json::Value::as_u64).unwrap_or_default());
                }
                Err(error) => error,
            };
            let refusal = error.downcast_ref::<Refusal>();
            let may_pass = refusal.map_or(self.has_succeeded, |refusal| !refusal.is_final());
            if !may_pass || started.elapsed() > GIVE_UP_AFTER {
                self.has_failed = true;
                return Err(error);
            }
            if !is_reported {
                print_error(&format!("{error:#}: trying again for {} s", GIVE_UP_AFTER.as_secs()));
                is_reported = true;
            }
            let delay = refusal.and_then(|refusal| refusal.retry_after).unwrap_or(RETRY_DELAY);
            tokio::time::sleep(delay.min(RETRY_DELAY_MAX)).await;
        }
    }
}
