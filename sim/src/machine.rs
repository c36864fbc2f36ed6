//! One machine of a simulated fleet: a node of the world with a real Bucksaw node on it, while it is up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::{self as cluster, Cluster, Facts, Router};
use bucksaw_doors::{Body, sim};
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_ingest::{self as ingest, Durability, Queue, Records, Refusal, Source};
use bucksaw_node::{Node, Parts, Roles};
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_segment::Codec;
use bucksaw_store::{self as store, Patience, Shelf};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// The call by which clients append.
pub(crate) const APPEND: &str = "sim/append";

/// Records with consecutive ids, as a client sends them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) first: Id,
    pub(crate) durability: String,
    pub(crate) lines: Vec<String>,
}

/// What a node says to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Appended {
    /// The promise holds.
    Kept,
    /// Nothing of it is kept.
    Refused,
    /// It may be kept.
    Unknown,
}

/// What all nodes of a fleet have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) join: Vec<String>,
    pub(crate) queue: ingest::Config,
    pub(crate) shelf: store::Config,
}

impl Settings {
    /// Small files and short times, so that much happens soon.
    pub(crate) fn small(copies: usize, join: Vec<String>) -> Self {
        Self {
            join,
            queue: ingest::Config { segment_bytes_max: 4 << 10, ..ingest::Config::default() },
            shelf: store::Config {
                segment_bytes: 32 << 10,
                block_bytes: 4 << 10,
                gather_age: Duration::from_secs(4),
                codec_quick: Codec::Plain,
                codec_final: Codec::Lz4,
                copies,
                ..store::Config::default()
            },
        }
    }
}

/// A machine, up or not.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) host: sim::Node,
    pub(crate) roles: Roles,
    id: Id,
    settings: Settings,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    node: Node,
    #[cfg_attr(not(test), expect(dead_code, reason = "they run until this is dropped"))]
    parts: Parts,
}

impl Machine {
    pub(crate) fn new(host: sim::Node, number: usize, roles: Roles, settings: Settings) -> Self {
        let id = Id::new(Millis(1_767_225_600_000), Producer::new(1 + number as u64), 0);
        Self { host, roles, id, settings, running: None }
    }

    /// The node that runs on it.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.running.as_ref().map(|running| &running.node)
    }

    /// What restores copies there, while it is up and a store.
    #[cfg(test)]
    pub(crate) fn repair(&self) -> Option<&Arc<store::repair::Repair>> {
        self.running.as_ref().and_then(|running| running.parts.repair())
    }

    /// Starts it, when it is not up. A node that cannot open its files stays down, and is to be started again.
    pub(crate) fn start(&mut self) {
        if self.running.is_some() {
            return;
        }
        self.host.restart();
        match self.open() {
            Some(running) => self.running = Some(running),
            None => self.host.kill(),
        }
    }

    fn open(&self) -> Option<Running> {
        let (doors, tasks, net) = (self.host.doors(), self.host.tasks(), self.host.net());
        let mut registry = Registry::default();
        let metrics = ingest::Metrics::new(&mut registry);
        let dir = Path::new("/data");
        let (queue, _) = Queue::open(doors.clone(), &dir.join("queue"), self.settings.queue.clone(), metrics).ok()?;
        let metrics = store::Metrics::new(&mut registry);
        let shelf = Shelf::open(doors.clone(), &dir.join("shelf"), self.settings.shelf.clone(), metrics).ok()?;
        shelf.reconcile(&queue);
        let mut config = cluster::Config::new(dir.to_owned());
        config.join.clone_from(&self.settings.join);
        let facts = Facts { roles: self.roles, ..Facts::new(self.id) };
        let metrics = cluster::Metrics::new(&mut registry);
        let (given, router) = (doors.clone(), Router::new());
        let cluster =
            Cluster::start(config, given, Arc::clone(&tasks), Arc::clone(&net), facts, router, metrics).ok()?;
        let node = Node {
            doors,
            tasks,
            net,
            id: self.id,
            roles: self.roles,
            queue: Arc::new(queue),
            shelf: Arc::new(shelf),
            cluster,
            patience: Patience::default(),
            modestly: |work| work(),
        };
        node.answer_calls();
        if self.roles.ingest {
            let queue = Arc::clone(&node.queue);
            node.cluster.router().add(APPEND, move |body: Body| append(Arc::clone(&queue), body));
        }
        Some(Running { parts: Parts::start(node.clone()), node })
    }

    /// What is left of it when its process is ended by `how`.
    pub(crate) fn die(&mut self, how: impl FnOnce(&sim::Node)) {
        how(&self.host);
        self.running = None;
    }
}

/// Appends as a source does, and answers when the promise holds.
async fn append(queue: Arc<Queue>, body: Body) -> std::io::Result<Body> {
    let batch: Append = read_message(body).await?;
    let durability: Durability = batch.durability.parse().map_err(std::io::Error::other)?;
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
    let appended = queue.append(durability, &records, move |kept| drop(tell.send(kept)));
    if durability == Durability::Bulk {
        queue.flush_bulk();
    }
    let kept = match appended {
        Ok(()) => told.await.unwrap_or(Err(Refusal::Io("nobody said".to_owned()))),
        Err(refusal) => Err(refusal),
    };
    message(&match kept {
        Ok(()) => Appended::Kept,
        Err(Refusal::Io(_)) => Appended::Unknown,
        Err(_) => Appended::Refused,
    })
}
