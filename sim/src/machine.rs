//! One machine of a simulated fleet: a node of the world with a real Bucksaw node on it, while it is up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bucksaw_cluster::{self as cluster, Cluster, Facts, Router};
use bucksaw_doors::sim::Loss;
use bucksaw_doors::{run, sim};
use bucksaw_ingest::{self as ingest, Queue};
use bucksaw_node::{Node, Parts, Roles};
use bucksaw_query::{self as query, Engine, Gossiped, Peers, Pool, Scatter, Serving};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_store::repair::Repair;
use bucksaw_store::{self as store, Patience, Shelf};
use prometheus_client::registry::Registry;

use crate::append::{self, Promises};
use crate::chance::Chance;
use crate::edition::Edition;
use crate::plant::{Mutation, calls, files, peers};
use crate::settings::Settings;

/// The data directory.
pub(crate) const DIR: &str = "/data";

/// How long a node that stops in good order gives what is left in its queue to stores.
const DRAIN: Duration = Duration::from_secs(20);

/// How long a node that stops waits for what it is doing.
const STOP: Duration = Duration::from_secs(30);

/// A machine, up or not.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) host: sim::Node,
    pub(crate) roles: Roles,
    /// It is not to be started: it has not been bought yet, or it is gone for good.
    pub(crate) away: bool,
    /// Its disk is gone for good.
    pub(crate) destroyed: bool,
    /// How often it lost power.
    pub(crate) cuts: u64,
    /// How often its power was cut.
    pub(crate) power_cuts: u64,
    /// It came to the others when they had been there for a while, so there was a time when they had not heard of it.
    pub(crate) is_newcomer: bool,
    /// It was started, and nobody has asked it anything.
    pub(crate) is_fresh: bool,
    /// Nodes that were on it and will never come back, and did not say so.
    pub(crate) gone: Vec<Id>,
    /// The version that it runs, or runs next.
    pub(crate) edition: Edition,
    starts: u64,
    id: Id,
    pub(crate) settings: Settings,
    running: Option<Running>,
    /// The disk as it was when it died once, and whether it died again since.
    backup: Option<(sim::Fs, bool)>,
}

#[derive(Debug)]
struct Running {
    node: Node,
    scatter: Arc<Scatter>,
    /// Not there while it stops in good order.
    parts: Option<Parts>,
    stopping: Arc<AtomicU8>,
}

/// No fleet has more; the numbers of nodes that come later in the life of one machine are so far apart.
const NODES_MAX: u64 = 100;

/// Hands what answers find to be in too few stores to the walker that restores it, as the program does.
#[derive(Debug)]
struct Restore(Arc<Repair>);

impl query::Repair for Restore {
    fn wanted(&self, low: Id, high: Id) {
        self.0.hint(low.at(), high.at());
    }
}

/// How far a stop in good order is.
const GOING: u8 = 0;
const DRAINED: u8 = 1;
const LEFT_OVER: u8 = 2;
const UNHEARD: u8 = 3;

/// How a stop in good order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Nothing was left in the queue.
    Empty,
    /// Something was.
    LeftOver,
    /// Nothing was, and nobody heard the goodbye.
    Unheard,
}

impl Machine {
    pub(crate) fn new(host: sim::Node, number: usize, roles: Roles, settings: Settings) -> Self {
        let id = Id::new(Millis(1_767_225_600_000), Producer::new(1 + number as u64), 0);
        Self {
            host,
            roles,
            id,
            settings,
            away: false,
            destroyed: false,
            cuts: 0,
            power_cuts: 0,
            is_newcomer: false,
            is_fresh: false,
            gone: Vec::new(),
            edition: Edition::Present,
            starts: 0,
            running: None,
            backup: None,
        }
    }

    /// The node that its disk makes it.
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// The node that runs on it.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.running.as_ref().map(|running| &running.node)
    }

    /// Whom one asks who asks this node, while it is up.
    pub(crate) fn scatter(&self) -> Option<&Arc<Scatter>> {
        self.running.as_ref().map(|running| &running.scatter)
    }

    /// What restores copies there, while it is up and a store.
    #[cfg(test)]
    pub(crate) fn repair(&self) -> Option<&Arc<Repair>> {
        self.running.as_ref().and_then(|running| running.parts.as_ref()?.repair())
    }

    /// Whether it is up and not about to go.
    pub(crate) fn is_steady(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.parts.is_some())
    }

    /// Starts it, when it is not up. A node that cannot open its files stays down, and is to be started again.
    pub(crate) fn start(&mut self) {
        if self.running.is_some() || self.away {
            return;
        }
        if let Some((backup, true)) = &self.backup {
            self.host.set_disk(backup.clone());
            self.backup = None;
        }
        self.host.restart();
        self.draw_edition();
        match self.open() {
            Some(running) => (self.running, self.is_fresh) = (Some(running), true),
            None => self.host.kill(),
        }
    }

    /// Another version may be started than has run here before.
    fn draw_edition(&mut self) {
        self.starts += 1;
        if let Some(seed) = self.settings.mixes {
            let is_next = Chance::new(seed ^ self.id.producer().bits() << 32 ^ self.starts).percent(50);
            let next = if is_next { Edition::Next } else { Edition::Present };
            self.upgrade(next);
        }
    }

    /// What runs from the next start on. What ran before has left its files.
    pub(crate) fn upgrade(&mut self, edition: Edition) {
        std::mem::replace(&mut self.edition, edition).leave(&self.host.fs());
    }

    fn open(&self) -> Option<Running> {
        let (mut doors, tasks, net) = (self.host.doors(), self.host.tasks(), self.edition.net(&self.host));
        doors.fs = files::planted(self.settings.planted, doors.fs);
        let mut registry = Registry::default();
        let metrics = ingest::Metrics::new(&mut registry);
        let dir = Path::new(DIR);
        if self.settings.planted == Some(Mutation::TornFileRemoved) {
            files::remove_torn(&*doors.fs, &dir.join("queue"));
        }
        if self.settings.planted == Some(Mutation::KeysForgotten) {
            files::forget_keys(&*doors.fs, &dir.join("queue"));
        }
        if self.settings.planted == Some(Mutation::SealUnchecked) {
            files::forget_seals(&*doors.fs, &dir.join("queue"));
        }
        let (queue, _) = Queue::open(doors.clone(), &dir.join("queue"), self.settings.queue.clone(), metrics).ok()?;
        let metrics = store::Metrics::new(&mut registry);
        let shelf = Shelf::open(doors.clone(), &dir.join("shelf"), self.settings.shelf.clone(), metrics).ok()?;
        shelf.reconcile(&queue);
        let mut config = cluster::Config::new(dir.to_owned());
        config.join.clone_from(&self.settings.join);
        config.speaks = self.edition.speaks();
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
            balance: self.settings.balance,
        };
        node.answer_calls();
        node.cluster.update(|facts| facts.formats = self.edition.formats());
        if self.roles.ingest {
            let promises = Promises::of(self.settings.planted, self.cuts);
            append::answer_calls(&node, promises);
        }
        if let Some(mutation) = self.settings.planted {
            calls::plant(mutation, &node);
        }
        let parts = Parts::start(node.clone());
        if let (Some(Mutation::WalkSkipped), Some(repair)) = (self.settings.planted, parts.repair()) {
            calls::skip_walks(&node, repair);
        }
        let scatter = self.scatter_of(&node, parts.repair(), query::Metrics::new(&mut registry));
        Some(Running { node, scatter, parts: Some(parts), stopping: Arc::default() })
    }

    /// Lets the node be asked, by people and by other nodes.
    fn scatter_of(&self, node: &Node, repair: Option<&Arc<Repair>>, metrics: query::Metrics) -> Arc<Scatter> {
        let (queue, shelf) = (Arc::clone(&node.queue), Arc::clone(&node.shelf));
        let engine =
            Engine::new(queue, shelf, Pool::inline(), node.doors.clone(), self.settings.query.clone(), metrics);
        let planted = self.settings.planted;
        let copies = self.settings.copies;
        let gossiped = Gossiped::new(Arc::clone(&node.cluster), Arc::clone(&node.doors.clock), copies);
        let own = format!("{}:{}", self.host.name(), self.host.address().port());
        let joins = self.settings.join.iter().any(|host| *host != own) && planted != Some(Mutation::AloneAtFirst);
        let gossiped = if joins { gossiped.joining() } else { gossiped };
        let peers: Arc<dyn Peers> = peers::planted(planted, gossiped, &node.tasks);
        let repair = repair.filter(|_| !planted.is_some_and(Mutation::is_mended));
        let restore = repair.map(|repair| Arc::new(Restore(Arc::clone(repair))) as Arc<dyn query::Repair>);
        let serving = Serving::new(Arc::new(engine), Arc::clone(&node.tasks), peers);
        serving.register(&node.cluster.router());
        Scatter::new(serving, query::Patience::default(), restore)
    }

    /// The process is killed.
    pub(crate) fn kill(&mut self) {
        self.keep_backup();
        if self.settings.planted == Some(Mutation::WrittenLate) {
            self.host.cut_power(Loss::All);
        } else {
            self.host.kill();
        }
        self.running = None;
    }

    /// The power goes.
    pub(crate) fn cut_power(&mut self, how: Loss) {
        self.keep_backup();
        self.host.cut_power(how);
        self.cuts += 1;
        self.power_cuts += 1;
        self.running = None;
    }

    /// The machine's disk is lost, and it comes back with an empty one: as another node, for a disk is what makes a node.
    pub(crate) fn lose_disk(&mut self) {
        self.host.cut_power(Loss::All);
        self.host.set_disk(sim::Fs::new());
        self.end_node();
        let next = Producer::new(self.id.producer().bits() + NODES_MAX);
        self.id = Id::new(self.id.at(), next, 0);
        self.is_newcomer = true;
    }

    /// It becomes a copy of another one, disk and all. It must be down, and may be started then.
    #[cfg(test)]
    pub(crate) fn be_copy_of(&mut self, other: &Self) {
        self.host.set_disk(other.host.fs().cut_power(Loss::None, 0));
        (self.id, self.away) = (other.id, false);
    }

    /// The machine burns.
    pub(crate) fn destroy(&mut self) {
        self.host.cut_power(Loss::All);
        self.end_node();
        (self.away, self.destroyed) = (true, true);
    }

    /// Its node has left, and the machine is put to another use. If nobody heard the goodbye it said so: it is to be forgotten.
    pub(crate) fn retire(&mut self, was_heard: bool) {
        self.host.cut_power(Loss::All);
        self.running = None;
        self.gone.extend((!was_heard).then_some(self.id));
        (self.away, self.destroyed) = (true, true);
    }

    /// The node on it will never come back.
    fn end_node(&mut self) {
        self.gone.push(self.id);
        self.cuts += 1;
        self.running = None;
        self.backup = None;
    }

    fn keep_backup(&mut self) {
        if self.settings.planted != Some(Mutation::OldDisk) || self.node().is_none() {
            return;
        }
        match &mut self.backup {
            Some((_, again)) => *again = true,
            none => *none = Some((self.host.fs().cut_power(Loss::None, 0), false)),
        }
    }

    /// Begins to stop it in good order; when it `leaves` the others are told of it.
    pub(crate) fn stop(&mut self, leaves: bool) {
        let Some(running) = &mut self.running else { return };
        let Some(parts) = running.parts.take() else { return };
        let (node, stopping) = (running.node.clone(), Arc::clone(&running.stopping));
        self.host.spawn(async move {
            node.cluster.update(|facts| facts.draining = true);
            let queue = Arc::clone(&node.queue);
            run(&node.tasks, move || queue.close()).await;
            parts.drain(DRAIN).await;
            let is_drained = node.queue.segments().is_empty();
            parts.stop(STOP).await;
            let stopped = match is_drained {
                false => LEFT_OVER,
                true if leaves && !node.cluster.leave().await => UNHEARD,
                true => DRAINED,
            };
            stopping.store(stopped, Ordering::Relaxed);
        });
    }

    /// Ends the process of a node that has stopped in good order.
    pub(crate) fn has_stopped(&mut self) -> Option<Stopped> {
        let running = self.running.as_ref().filter(|running| running.parts.is_none())?;
        let stopped = match running.stopping.load(Ordering::Relaxed) {
            GOING => return None,
            DRAINED => Stopped::Empty,
            UNHEARD => Stopped::Unheard,
            _ => Stopped::LeftOver,
        };
        self.host.kill();
        self.running = None;
        Some(stopped)
    }
}
