//! How clients append: the call that stands for the sources of a real node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_cluster::Place;
use bucksaw_doors::Body;
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_ingest::{Durability, Queue, Records, Refusal, Source};
use bucksaw_node::Node;
use bucksaw_record::{Id, Labels, Millis, Producer, key_time};
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

/// Numbers batches with keys, as the HTTP interface does.
#[derive(Clone, Debug)]
struct Numbering {
    node: Node,
    planted: Option<Mutation>,
    /// Keys of this life of the node: one of the mutations knows no others.
    own: Arc<Mutex<BTreeMap<String, Id>>>,
}

impl Numbering {
    fn first(&self, key: &str) -> Id {
        let now = Millis(self.node.doors.clock.unix_ms());
        if self.planted == Some(Mutation::KeysForgotten) && key_time(key.as_bytes()).is_none() {
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            let first = Id::new(now, Producer::keyed(key.as_bytes()), 0);
            return *own.entry(key.to_owned()).or_insert(first);
        }
        self.node.queue.keyed(key.as_bytes(), now)
    }
}

/// Lets clients append to a node.
pub(crate) fn answer_calls(node: &Node, promises: Promises) {
    let queue = Arc::clone(&node.queue);
    let tasks = Arc::clone(&node.tasks);
    let numbering = Numbering { node: node.clone(), planted: promises.planted, own: Arc::default() };
    node.cluster.router().add(APPEND, move |body: Body| {
        let (queue, tasks, numbering) = (Arc::clone(&queue), Arc::clone(&tasks), numbering.clone());
        async move {
            let mut batch: Append = read_message(body).await?;
            // The listeners of a real node are not served before.
            if numbering.node.cluster.place() != Place::Taken {
                return message(&Appended::Refused);
            }
            let mut kept = Appended::Kept { cuts: promises.cuts };
            if let Some(key) = &batch.key {
                batch.first = numbering.first(key);
                kept = Appended::KeptAs { cuts: promises.cuts, first: batch.first };
            }
            let told = match promises.planted {
                Some(Mutation::AppendToldEarly) => {
                    tasks.spawn(Box::pin(async move { drop(append(&queue, batch).await) }));
                    kept
                }
                Some(Mutation::LastRecordDropped) if batch.lines.len() > 1 => {
                    batch.lines.pop();
                    told(append(&queue, batch).await, kept)
                }
                Some(Mutation::DurableAsFast) if batch.durability == Durability::Durable.name() => {
                    Durability::Fast.name().clone_into(&mut batch.durability);
                    told(append(&queue, batch).await, kept)
                }
                Some(Mutation::BulkAsDurable) if batch.durability == Durability::Bulk.name() => {
                    Durability::Durable.name().clone_into(&mut batch.durability);
                    told(append(&queue, batch).await, kept)
                }
                Some(Mutation::RefusedButKept) if batch.first.sequence().is_multiple_of(7) => {
                    drop(append(&queue, batch).await);
                    Appended::Refused
                }
                Some(Mutation::FailureToldAsSuccess) => {
                    drop(append(&queue, batch).await);
                    kept
                }
                Some(Mutation::FailureToldAsRefusal) => match told(append(&queue, batch).await, kept) {
                    Appended::Unknown => Appended::Refused,
                    told => told,
                },
                _ => told(append(&queue, batch).await, kept),
            };
            message(&told)
        }
    });
}

fn told(appended: Result<(), Refusal>, kept: Appended) -> Appended {
    match appended {
        Ok(()) => kept,
        Err(Refusal::Io(_)) => Appended::Unknown,
        Err(_) => Appended::Refused,
    }
}

/// Appends as a source does; done when the promise holds.
async fn append(queue: &Queue, batch: Append) -> Result<(), Refusal> {
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
    told.await.unwrap_or(Err(Refusal::Io("nobody said".to_owned())))
}
