//! How clients append: the call that stands for the sources of a real node.

use std::sync::Arc;

use bucksaw_cluster::JoinState;
use bucksaw_env::Body;
use bucksaw_ingest::{Durability, FrameRecords, IdempotentBatch, IngestError, Queue, Source};
use bucksaw_node::Node;
use bucksaw_record::{Id, Labels};
use bucksaw_rpc::{message_body, read_message};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::injected_bug::InjectedBug;

/// The call by which clients append.
pub(crate) const APPEND: &str = "sim/append";

/// Records with consecutive ids, as a client sends them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AppendRequest {
    pub(crate) first: Id,
    pub(crate) durability: String,
    pub(crate) lines: Vec<String>,
    /// The idempotency key, of a batch that has one. The node numbers it, and `first` is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

/// What a node says to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendReply {
    /// The promise holds, said by a machine that has lost power so many times.
    Acknowledged { cuts: u64 },
    /// The same of a batch with a key, and the id of its first record.
    AcknowledgedAs { cuts: u64, first: Id },
    /// Nothing of it is kept.
    Refused,
    /// Nor is this: its key was used with another body.
    KeyReused,
    /// It may be kept.
    Unknown,
}

/// How a node keeps its promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendBehavior {
    bug: Option<InjectedBug>,
    /// How often its machine has lost power.
    cuts: u64,
}

impl AppendBehavior {
    pub(crate) fn new(planted: Option<InjectedBug>, cuts: u64) -> Self {
        Self { bug: planted, cuts }
    }
}

/// The id of the first record of a batch with a key, as the HTTP interface gets it, and whether the key must be synced before the
/// batch is acknowledged as more than `fast`.
fn assign_ids(
    queue: &Queue,
    planted: Option<InjectedBug>,
    key: &str,
    lines: &[String],
) -> Result<(Id, bool), IngestError> {
    let text = lines.concat();
    let (name, content) = match planted {
        Some(InjectedBug::KeyReuseAccepted) => (format!("{key} {text}"), &*text),
        Some(InjectedBug::KeyWithoutBody) => (key.to_owned(), ""),
        _ => (key.to_owned(), &*text),
    };
    let mut batch = IdempotentBatch::new(name.as_bytes(), b"app=sim");
    let first = queue.assign_ids(&mut batch, &[content.as_bytes()], true)?;
    Ok((first, batch.depends_on_remembered_key()))
}

/// Lets clients append to a node.
pub(crate) fn register_calls(node: &Node, promises: AppendBehavior) {
    let queue = Arc::clone(&node.queue);
    let tasks = Arc::clone(&node.tasks);
    let of = node.clone();
    node.cluster.router().add(APPEND, move |body: Body| {
        let (queue, tasks, node) = (Arc::clone(&queue), Arc::clone(&tasks), of.clone());
        async move {
            let mut batch: AppendRequest = read_message(body).await?;
            // The listeners of a real node are not served before.
            if node.cluster.join_state() != JoinState::Joined {
                return message_body(&AppendReply::Refused);
            }
            let mut kept = AppendReply::Acknowledged { cuts: promises.cuts };
            let mut syncs_keys = false;
            if let Some(key) = &batch.key {
                match assign_ids(&queue, promises.bug, key, &batch.lines) {
                    Ok((first, rests_on_memory)) => (batch.first, syncs_keys) = (first, rests_on_memory),
                    Err(refusal) => return message_body(&reply_for(Err(refusal), kept)),
                }
                kept = AppendReply::AcknowledgedAs { cuts: promises.cuts, first: batch.first };
            }
            let told = match promises.bug {
                Some(InjectedBug::AppendAcknowledgedEarly) => {
                    tasks.spawn(Box::pin(async move { drop(append(&queue, batch, syncs_keys).await) }));
                    kept
                }
                Some(InjectedBug::LastRecordDropped) if batch.lines.len() > 1 => {
                    batch.lines.pop();
                    reply_for(append(&queue, batch, syncs_keys).await, kept)
                }
                Some(InjectedBug::DurableAsFast) if batch.durability == Durability::Durable.name() => {
                    Durability::Fast.name().clone_into(&mut batch.durability);
                    reply_for(append(&queue, batch, syncs_keys).await, kept)
                }
                Some(InjectedBug::BulkAsDurable) if batch.durability == Durability::Bulk.name() => {
                    Durability::Durable.name().clone_into(&mut batch.durability);
                    reply_for(append(&queue, batch, syncs_keys).await, kept)
                }
                Some(InjectedBug::RefusedButStored) if batch.first.sequence().is_multiple_of(7) => {
                    drop(append(&queue, batch, syncs_keys).await);
                    AppendReply::Refused
                }
                Some(InjectedBug::FailureReportedAsSuccess) => {
                    drop(append(&queue, batch, syncs_keys).await);
                    kept
                }
                Some(InjectedBug::FailureReportedAsRefusal) => {
                    match reply_for(append(&queue, batch, syncs_keys).await, kept) {
                        AppendReply::Unknown => AppendReply::Refused,
                        told => told,
                    }
                }
                _ => reply_for(append(&queue, batch, syncs_keys).await, kept),
            };
            message_body(&told)
        }
    });
}

fn reply_for(appended: Result<(), IngestError>, kept: AppendReply) -> AppendReply {
    match appended {
        Ok(()) => kept,
        Err(IngestError::Io(_)) => AppendReply::Unknown,
        Err(IngestError::KeyReused) => AppendReply::KeyReused,
        Err(_) => AppendReply::Refused,
    }
}

/// Appends as a source does; done when the promise holds. `syncs_keys` says that what is remembered of the key must be as safe.
async fn append(queue: &Queue, batch: AppendRequest, syncs_keys: bool) -> Result<(), IngestError> {
    let durability: Durability = batch.durability.parse().map_err(IngestError::Io)?;
    let text: String = batch.lines.iter().map(|line| format!("{line}\n")).collect();
    let labels = Labels::parse("app=sim").unwrap_or_default();
    let records = FrameRecords {
        source: Source::Forward,
        labels: &labels,
        first_id: batch.first,
        count: batch.lines.len() as u32,
        accepted: batch.first.time(),
        layout_bits: 0,
        row_meta: &[],
        text: &[text.as_bytes()],
    };
    let (tell, told) = oneshot::channel();
    queue.append(durability, &records, move |kept| drop(tell.send(kept)))?;
    if durability == Durability::Bulk {
        queue.flush_bulk();
    }
    told.await.unwrap_or(Err(IngestError::Io("no answer came".to_owned())))?;
    if syncs_keys && durability != Durability::Fast { queue.sync_keys() } else { Ok(()) }
}
