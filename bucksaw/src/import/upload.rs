//! Sends parts to a node, each until it is accepted.

use bucksaw_record::Millis;
use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::parts::Part;
use crate::node_client::{LineSender, NodeClient};

/// Sends parts to one node.
pub(super) struct Upload {
    sender: LineSender,
    /// The path of the call, with all that the records depend on but the time of their part.
    path: String,
    durability: &'static str,
    /// Whether a part could not be sent, so that further parts would fail, too.
    pub(super) has_failed: bool,
}

impl Upload {
    /// Sends to this path, to which the durability and the time of each part are added.
    pub(super) fn new(client: NodeClient, path: String, durability: &'static str) -> Self {
        Self { sender: LineSender::new(client), path, durability, has_failed: false }
    }

    /// Sends a part until it is accepted; returns the number of its records.
    pub(super) async fn send(&mut self, part: Part, at: Millis) -> anyhow::Result<u64> {
        // Other labels, another zone or another time are another batch.
        let call = format!("{}&batch_time={}", self.path, at.0);
        let hash = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(call.as_bytes()), &part.text);
        let key = format!("import {} {hash:016x}", part.offset);
        let path = format!("{call}&durability={}", self.durability);
        let sent = self.sender.send(&path, &key, Bytes::from(part.text)).await;
        self.has_failed |= sent.is_err();
        sent
    }
}
