//! How clients append: the call that stands for the sources of a real node.

use std::sync::Arc;

use bucksaw_cluster::Place;
use bucksaw_doors::Body;
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_ingest::{Batch, Durability, Queue, Records, Refusal, Source};
use bucksaw_node::Node;
use bucksaw_record::{Id, Labels};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::plant::Mutation;

/// The call by which clients append.
pub(crate) const APPEND: &str = "sim/append";

/// Records with consecutive ids, as a client sends them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) first: Id,
    pub(crate) durability: String,
    pub(crate) lines: Vec<String>,
    /// The idempotency key, of a batch that has one. The node numbers it, and `first` is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

/// What a node says to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Appended {
    /// The promise holds, said by a machine that has lost power so many times.
    Kept { cuts: u64 },
    /// The same of a batch with a key, and the id of its first record.
    KeptAs { cuts: u64, first: Id },
    /// Nothing of it is kept.
    Refused,
    /// Nor is this: its key was used with another body.
    Reused,
    /// It may be kept.
    Unknown,
}

/// How a node keeps its promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promises {
    planted: Option<Mutation>,
    /// How often its machine has lost power.
    cuts: u64,
}

impl Promises {
    pub(crate) fn of(planted: Option<Mutation>, cuts: u64) -> Self {
        Self { planted, cuts }
    }
}

/// The id of the first record of a batch with a key, as the HTTP interface gets it, and whether the key must be synced before the
/// batch is acknowledged as more than `fast`.
fn number(queue: &Queue, planted: Option<Mutation>, key: &str, lines: &[String]) -> Result<(Id, bool), Refusal> {
    let text = lines.concat();
    let (name, content) = match planted {
        Some(Mutation::KeyReuseTaken) => (format!("{key} {text}"), &*text),
        Some(Mutation::KeyWithoutBody) => (key.to_owned(), ""),
        _ => (key.to_owned(), &*text),
    };
    let mut batch = Batch::new(name.as_bytes(), b"app=sim");
    let first = queue.number(&mut batch, &[content.as_bytes()], true)?;
    Ok((first, batch.rests_on_memory()))
}

/// Lets clients append to a node.
pub(crate) fn answer_calls(node: &Node, promises: Promises) {
    let queue = Arc::clone(&node.queue);
    let tasks = Arc::clone(&node.tasks);
    let of = node.clone();
    node.cluster.router().add(APPEND, move |body: Body| {
        let (queue, tasks, node) = (Arc::clone(&queue), Arc::clone(&tasks), of.clone());
        async move {
            let mut batch: Append = read_message(body).await?;
            // The listeners of a real node are not served before.
            if node.cluster.place() != Place::Taken {
                return message(&Appended::Refused);
            }
            let mut kept = Appended::Kept { cuts: promises.cuts };
            let mut syncs_keys = false;
            if let Some(key) = &batch.key {
                match number(&queue, promises.planted, key, &batch.lines) {
                    Ok((first, rests_on_memory)) => (batch.first, syncs_keys) = (first, rests_on_memory),
                    Err(refusal) => return message(&told(Err(refusal), kept)),
                }
                kept = Appended::KeptAs { cuts: promises.cuts, first: batch.first };
            }
            let told = match promises.planted {
                Some(Mutation::AppendToldEarly) => {
                    tasks.spawn(Box::pin(async move { drop(append(&queue, batch, syncs_keys).await) }));
                    kept
                }
                Some(Mutation::LastRecordDropped) if batch.lines.len() > 1 => {
                    batch.lines.pop();
                    told(append(&queue, batch, syncs_keys).await, kept)
                }
                Some(Mutation::DurableAsFast) if batch.durability == Durability::Durable.name() => {
                    Durability::Fast.name().clone_into(&mut batch.durability);
                    told(append(&queue, batch, syncs_keys).await, kept)
                }
                Some(Mutation::BulkAsDurable) if batch.durability == Durability::Bulk.name() => {
                    Durability::Durable.name().clone_into(&mut batch.durability);
                    told(append(&queue, batch, syncs_keys).await, kept)
                }
                Some(Mutation::RefusedButKept) if batch.first.sequence().is_multiple_of(7) => {
                    drop(append(&queue, batch, syncs_keys).await);
                    Appended::Refused
                }
                Some(Mutation::FailureToldAsSuccess) => {
                    drop(append(&queue, batch, syncs_keys).await);
                    kept
                }
                Some(Mutation::FailureToldAsRefusal) => match told(append(&queue, batch, syncs_keys).await, kept) {
                    Appended::Unknown => Appended::Refused,
                    told => told,
                },
                _ => told(append(&queue, batch, syncs_keys).await, kept),
            };
            message(&told)
        }
    });
}

fn told(appended: Result<(), Refusal>, kept: Appended) -> Appended {
    match appended {
        Ok(()) => kept,
        Err(Refusal::Io(_)) => Appended::Unknown,
        Err(Refusal::Reused) => Appended::Reused,
        Err(_) => Appended::Refused,
    }
}

/// Appends as a source does; done when the promise holds. `syncs_keys` says that what is remembered of the key must be as safe.
async fn append(queue: &Queue, batch: Append, syncs_keys: bool) -> Result<(), Refusal> {
    let durability: Durability = batch.durability.parse().map_err(Refusal::Io)?;
    let text: String = batch.lines.iter().map(|line| format!("{line}\n")).collect();
    let labels = Labels::parse("app=sim").unwrap_or_default();
    let records = Records {
        source: Source::Forward,
        labels: &labels,
        first: batch.first,
        count: batch.lines.len() as u32,
        accepted: batch.first.at(),
        flags: 0,
        sides: &[],
        text: &[text.as_bytes()],
    };
    let (tell, told) = oneshot::channel();
    queue.append(durability, &records, move |kept| drop(tell.send(kept)))?;
    if durability == Durability::Bulk {
        queue.flush_bulk();
    }
    told.await.unwrap_or(Err(Refusal::Io("no answer came".to_owned())))?;
    if syncs_keys && durability != Durability::Fast { queue.sync_keys() } else { Ok(()) }
}
