//! The call by which simulated clients append, in place of the sources of a real node.

use std::sync::Arc;

use bucksaw_cluster::JoinState;
use bucksaw_env::Body;
use bucksaw_ingest::{Durability, FrameRecords, IdempotentBatch, IngestError, Queue, Source};
use bucksaw_node::Node;
use bucksaw_record::{Id, Labels};
use bucksaw_rpc::{message_body, read_message};
use bucksaw_segment::RowMeta;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::injected_bug::InjectedBug;
use crate::record_attributes::add_attributes;

/// The call by which clients append.
pub(crate) const APPEND: &str = "sim/append";

/// Records with consecutive ids, as a client sends them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AppendRequest {
    pub(crate) first: Id,
    pub(crate) durability: String,
    pub(crate) lines: Vec<String>,
    /// The idempotency key. With a key, the node assigns the ids, and `first` is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

/// The reply to an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendReply {
    /// The durability is reached, on a machine that has lost data `cuts` times.
    Acknowledged { cuts: u64 },
    /// The same for a keyed batch, with the id of its first record.
    AcknowledgedAs { cuts: u64, first: Id },
    /// Nothing was stored.
    Refused,
    /// Nothing was stored: the key was used with another body.
    KeyReused,
    /// The records may be stored.
    Unknown,
}

/// How a node handles appends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendBehavior {
    bug: Option<InjectedBug>,
    /// How often its machine has lost data.
    cuts: u64,
}

impl AppendBehavior {
    pub(crate) fn new(bug: Option<InjectedBug>, cuts: u64) -> Self {
        Self { bug, cuts }
    }
}

/// The id of the first record of a keyed batch, assigned as by the HTTP interface, and whether the key must be synced before the
/// batch is acknowledged as `durable`.
fn assign_ids(queue: &Queue, bug: Option<InjectedBug>, key: &str, lines: &[String]) -> Result<(Id, bool), IngestError> {
    let text = lines.concat();
    let (name, content) = match bug {
        Some(InjectedBug::KeyReuseAccepted) => (format!("{key} {text}"), &*text),
        Some(InjectedBug::KeyWithoutBody) => (key.to_owned(), ""),
        _ => (key.to_owned(), &*text),
    };
    let mut batch = IdempotentBatch::new(name.as_bytes(), b"app=sim");
    let first = queue.assign_ids(&mut batch, &[content.as_bytes()], true)?;
    Ok((first, batch.depends_on_remembered_key()))
}

/// Registers the call at a node.
pub(crate) fn register_calls(node: &Node, behavior: AppendBehavior) {
    let queue = Arc::clone(&node.queue);
    let tasks = Arc::clone(&node.tasks);
    let own = node.clone();
    node.cluster.router().add(APPEND, move |body: Body| {
        let (queue, tasks, node) = (Arc::clone(&queue), Arc::clone(&tasks), own.clone());
        async move {
            let mut batch: AppendRequest = read_message(body).await?;
            // A real node opens its listeners after this.
            if node.cluster.join_state() != JoinState::Joined {
                return message_body(&AppendReply::Refused);
            }
            let mut acknowledged = AppendReply::Acknowledged { cuts: behavior.cuts };
            let mut syncs_keys = false;
            if let Some(key) = &batch.key {
                match assign_ids(&queue, behavior.bug, key, &batch.lines) {
                    Ok((first, depends_on_key)) => (batch.first, syncs_keys) = (first, depends_on_key),
                    Err(refusal) => return message_body(&reply_for(Err(refusal), acknowledged)),
                }
                acknowledged = AppendReply::AcknowledgedAs { cuts: behavior.cuts, first: batch.first };
            }
            let reply = match behavior.bug {
                Some(InjectedBug::AppendAcknowledgedEarly) => {
                    tasks.spawn(Box::pin(async move { drop(append(&queue, batch, syncs_keys).await) }));
                    acknowledged
                }
                Some(InjectedBug::LastRecordDropped) if batch.lines.len() > 1 => {
                    batch.lines.pop();
                    reply_for(append(&queue, batch, syncs_keys).await, acknowledged)
                }
                Some(InjectedBug::DurableAsFast) if batch.durability == Durability::Durable.name() => {
                    Durability::Fast.name().clone_into(&mut batch.durability);
                    reply_for(append(&queue, batch, syncs_keys).await, acknowledged)
                }
                Some(InjectedBug::BulkAsDurable) if batch.durability == Durability::Bulk.name() => {
                    Durability::Durable.name().clone_into(&mut batch.durability);
                    reply_for(append(&queue, batch, syncs_keys).await, acknowledged)
                }
                Some(InjectedBug::RefusedButStored) if batch.first.sequence().is_multiple_of(7) => {
                    drop(append(&queue, batch, syncs_keys).await);
                    AppendReply::Refused
                }
                Some(InjectedBug::FailureReportedAsSuccess) => {
                    drop(append(&queue, batch, syncs_keys).await);
                    acknowledged
                }
                Some(InjectedBug::FailureReportedAsRefusal) => {
                    match reply_for(append(&queue, batch, syncs_keys).await, acknowledged) {
                        AppendReply::Unknown => AppendReply::Refused,
                        reply => reply,
                    }
                }
                _ => reply_for(append(&queue, batch, syncs_keys).await, acknowledged),
            };
            message_body(&reply)
        }
    });
}

fn reply_for(appended: Result<(), IngestError>, acknowledged: AppendReply) -> AppendReply {
    match appended {
        Ok(()) => acknowledged,
        Err(IngestError::Io(_)) => AppendReply::Unknown,
        Err(IngestError::KeyReused) => AppendReply::KeyReused,
        Err(_) => AppendReply::Refused,
    }
}

/// Appends as a source does; returns when the durability is reached. With `syncs_keys` the key must be durable, too.
pub(crate) async fn append(queue: &Queue, batch: AppendRequest, syncs_keys: bool) -> Result<(), IngestError> {
    let durability: Durability = batch.durability.parse().map_err(IngestError::Io)?;
    let (text, lines, attributes) = add_attributes(&batch.lines).map_err(|error| IngestError::Io(error.to_string()))?;
    let lines = (!attributes.is_empty()).then_some(lines);
    let mut row_meta = Vec::new();
    let layout_bits = RowMeta { lines, attributes, ..RowMeta::default() }.encode(batch.first.time(), &mut row_meta);
    let labels = Labels::parse("app=sim").unwrap_or_default();
    let records = FrameRecords {
        source: Source::Forward,
        labels: &labels,
        first_id: batch.first,
        count: batch.lines.len() as u32,
        accepted: batch.first.time(),
        layout_bits,
        row_meta: &row_meta,
        text: &[text.as_bytes()],
    };
    let (sender, result) = oneshot::channel();
    queue.append(durability, &records, move |appended| drop(sender.send(appended)))?;
    if durability == Durability::Bulk {
        queue.flush_bulk();
    }
    result.await.unwrap_or(Err(IngestError::Io("the append was dropped".to_owned())))?;
    if syncs_keys && durability != Durability::Fast { queue.sync_keys() } else { Ok(()) }
}
