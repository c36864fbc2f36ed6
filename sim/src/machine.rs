//! One machine of a simulated fleet: a node of the world with a real Bucksaw node on it, while it is up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bucksaw_cluster::{self as cluster, Cluster, Facts, Router};
use bucksaw_env::sim::PowerCutLoss;
use bucksaw_env::{run_blocking, sim};
use bucksaw_ingest::{self as ingest, Queue};
use bucksaw_node::{Node, NodeTasks, Roles};
use bucksaw_query::{self as query, Engine, GossipPeers, QueryPeers, QueryServer, ScanPool, Scatter};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_store::repair::Repair;
use bucksaw_store::{self as store, PeerTimeouts, SegmentStore};
use prometheus_client::registry::Registry;

use crate::append::{self, AppendBehavior};
use crate::injected_bug::{InjectedBug, calls, files, peers};
use crate::program_version::ProgramVersion;
use crate::rng::SeededRng;
use crate::settings::NodeSettings;

/// The data directory.
pub(crate) const DIR: &str = "/data";

/// How long a node that stops in good order gives what is left in its queue to stores.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a node that stops waits for what it is doing.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A machine, up or not.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) host: sim::Host,
    pub(crate) roles: Roles,
    /// It is not to be started: it has not been bought yet, or it is gone for good.
    pub(crate) cannot_start: bool,
    /// Its disk is gone for good.
    pub(crate) destroyed: bool,
    /// How often it lost power.
    pub(crate) data_losses: u64,
    /// How often its power was cut.
    pub(crate) power_cuts: u64,
    /// It came to the others when they had been there for a while, so there was a time when they had not heard of it.
    pub(crate) is_late_joiner: bool,
    /// It was started, and nobody has asked it anything.
    pub(crate) is_just_started: bool,
    /// Nodes that were on it and will never come back, and did not say so.
    pub(crate) lost_nodes: Vec<Id>,
    /// The version that it runs, or runs next.
    pub(crate) version: ProgramVersion,
    start_count: u64,
    id: Id,
    pub(crate) settings: NodeSettings,
    running: Option<RunningMachine>,
    /// The disk as it was when it died once, and whether it died again since.
    backup: Option<(sim::Fs, bool)>,
}

#[derive(Debug)]
struct RunningMachine {
    node: Node,
    scatter: Arc<Scatter>,
    /// Not there while it stops in good order.
    parts: Option<NodeTasks>,
    stopping: Arc<AtomicU8>,
}

/// No fleet has more; the numbers of nodes that come later in the life of one machine are so far apart.
const NODES_MAX: u64 = 100;

/// Hands what answers find to be in too few stores to the walker that restores it, as the program does.
#[derive(Debug)]
struct RepairHintForwarder(Arc<Repair>);

impl query::RepairHints for RepairHintForwarder {
    fn on_under_replicated(&self, low: Id, high: Id) {
        self.0.hint(low.time(), high.time());
    }
}

/// How far a stop in good order is.
const STOPPING: u8 = 0;
const DRAINED: u8 = 1;
const NOT_DRAINED: u8 = 2;
const LEAVE_NOT_ACKNOWLEDGED: u8 = 3;

/// How a stop in good order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopOutcome {
    /// Nothing was left in the queue.
    Drained,
    /// Something was.
    NotDrained,
    /// Nothing was, and nobody heard the goodbye.
    LeaveNotAcknowledged,
}

impl Machine {
    pub(crate) fn new(host: sim::Host, number: usize, roles: Roles, settings: NodeSettings) -> Self {
        let id = Id::new(Millis(1_767_225_600_000), Producer::new(1 + number as u64), 0);
        Self {
            host,
            roles,
            id,
            settings,
            cannot_start: false,
            destroyed: false,
            data_losses: 0,
            power_cuts: 0,
            is_late_joiner: false,
            is_just_started: false,
            lost_nodes: Vec::new(),
            version: ProgramVersion::Current,
            start_count: 0,
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
        if self.running.is_some() || self.cannot_start {
            return;
        }
        if let Some((backup, true)) = &self.backup {
            self.host.set_disk(backup.clone());
            self.backup = None;
        }
        self.host.restart();
        self.choose_version();
        match self.open() {
            Some(running) => (self.running, self.is_just_started) = (Some(running), true),
            None => self.host.kill(),
        }
    }

    /// Another version may be started than has run here before.
    fn choose_version(&mut self) {
        self.start_count += 1;
        if let Some(seed) = self.settings.version_seed {
            let is_next = SeededRng::new(seed ^ self.id.producer().bits() << 32 ^ self.start_count).percent(50);
            let next = if is_next { ProgramVersion::Next } else { ProgramVersion::Current };
            self.upgrade(next);
        }
    }

    /// What runs from the next start on. What ran before has left its files.
    pub(crate) fn upgrade(&mut self, edition: ProgramVersion) {
        std::mem::replace(&mut self.version, edition).write_member_file(&self.host.fs());
    }

    fn open(&self) -> Option<RunningMachine> {
        let (mut env, tasks, net) = (self.host.env(), self.host.tasks(), self.version.net(&self.host));
        env.fs = files::inject(self.settings.bug, env.fs);
        let mut registry = Registry::default();
        let metrics = ingest::Metrics::new(&mut registry);
        let dir = Path::new(DIR);
        if self.settings.bug == Some(InjectedBug::TornFileRemoved) {
            files::remove_torn(&*env.fs, &dir.join("queue"));
        }
        if self.settings.bug == Some(InjectedBug::KeysForgotten) {
            files::forget_keys(&*env.fs, &dir.join("queue"));
        }
        if self.settings.bug == Some(InjectedBug::SealNotChecked) {
            files::forget_seals(&*env.fs, &dir.join("queue"));
        }
        let (queue, _) = Queue::open(env.clone(), &dir.join("queue"), self.settings.queue.clone(), metrics).ok()?;
        let metrics = store::Metrics::new(&mut registry);
        let store = SegmentStore::open(env.clone(), &dir.join("store"), self.settings.store.clone(), metrics).ok()?;
        store.reconcile(&queue);
        let mut config = cluster::Config::new(dir.to_owned());
        config.join.clone_from(&self.settings.join);
        config.version = self.version.protocol();
        let facts = Facts { roles: self.roles, ..Facts::new(self.id) };
        let metrics = cluster::Metrics::new(&mut registry);
        let (given, router) = (env.clone(), Router::new());
        let cluster =
            Cluster::start(config, given, Arc::clone(&tasks), Arc::clone(&net), facts, router, metrics).ok()?;
        let node = Node {
            env,
            tasks,
            net,
            id: self.id,
            roles: self.roles,
            queue: Arc::new(queue),
            store: Arc::new(store),
            cluster,
            patience: PeerTimeouts::default(),
            balance: self.settings.balance,
        };
        node.register_calls();
        node.cluster.update_facts(|facts| facts.formats = self.version.formats());
        if self.roles.ingest {
            let promises = AppendBehavior::new(self.settings.bug, self.data_losses);
            append::register_calls(&node, promises);
        }
        if let Some(bug) = self.settings.bug {
            calls::inject(bug, &node);
        }
        let parts = NodeTasks::start(node.clone());
        if let (Some(InjectedBug::RepairPassSkipped), Some(repair)) = (self.settings.bug, parts.repair()) {
            calls::skip_repair_passes(&node, repair);
        }
        let scatter = self.build_scatter(&node, parts.repair(), query::Metrics::new(&mut registry));
        Some(RunningMachine { node, scatter, parts: Some(parts), stopping: Arc::default() })
    }

    /// Lets the node be asked, by people and by other nodes.
    fn build_scatter(&self, node: &Node, repair: Option<&Arc<Repair>>, metrics: query::Metrics) -> Arc<Scatter> {
        let (queue, store) = (Arc::clone(&node.queue), Arc::clone(&node.store));
        let engine =
            Engine::new(queue, store, ScanPool::inline(), node.env.clone(), self.settings.query.clone(), metrics);
        let planted = self.settings.bug;
        let copies = self.settings.copies;
        let gossiped = GossipPeers::new(Arc::clone(&node.cluster), Arc::clone(&node.env.clock), copies);
        let own = format!("{}:{}", self.host.name(), self.host.address().port());
        let joins =
            self.settings.join.iter().any(|host| *host != own) && planted != Some(InjectedBug::NewNodeAssumesAlone);
        let gossiped = if joins { gossiped.with_join_targets() } else { gossiped };
        let peers: Arc<dyn QueryPeers> = peers::inject(planted, gossiped, &node.tasks);
        let repair = repair.filter(|_| !planted.is_some_and(InjectedBug::is_repaired));
        let restore =
            repair.map(|repair| Arc::new(RepairHintForwarder(Arc::clone(repair))) as Arc<dyn query::RepairHints>);
        let serving = QueryServer::new(Arc::new(engine), Arc::clone(&node.tasks), peers);
        serving.register(&node.cluster.router());
        Scatter::new(serving, query::ReplyTimeouts::default(), restore)
    }

    /// The process is killed.
    pub(crate) fn kill(&mut self) {
        self.save_backup();
        if self.settings.bug == Some(InjectedBug::WritesBuffered) {
            self.host.cut_power(PowerCutLoss::All);
        } else {
            self.host.kill();
        }
        self.running = None;
    }

    /// The power goes.
    pub(crate) fn cut_power(&mut self, how: PowerCutLoss) {
        self.save_backup();
        self.host.cut_power(how);
        self.data_losses += 1;
        self.power_cuts += 1;
        self.running = None;
    }

    /// The machine's disk is lost, and it comes back with an empty one: as another node, for a disk is what makes a node.
    pub(crate) fn lose_disk(&mut self) {
        self.host.cut_power(PowerCutLoss::All);
        self.host.set_disk(sim::Fs::new());
        self.drop_node();
        let next = Producer::new(self.id.producer().bits() + NODES_MAX);
        self.id = Id::new(self.id.time(), next, 0);
        self.is_late_joiner = true;
    }

    /// It becomes a copy of another one, disk and all. It must be down, and may be started then.
    #[cfg(test)]
    pub(crate) fn clone_disk_from(&mut self, other: &Self) {
        self.host.set_disk(other.host.fs().cut_power(PowerCutLoss::None, 0));
        (self.id, self.cannot_start) = (other.id, false);
    }

    /// The machine burns.
    pub(crate) fn destroy(&mut self) {
        self.host.cut_power(PowerCutLoss::All);
        self.drop_node();
        (self.cannot_start, self.destroyed) = (true, true);
    }

    /// Its node has left, and the machine is put to another use. If nobody heard the goodbye it said so: it is to be forgotten.
    pub(crate) fn retire(&mut self, was_heard: bool) {
        self.host.cut_power(PowerCutLoss::All);
        self.running = None;
        self.lost_nodes.extend((!was_heard).then_some(self.id));
        (self.cannot_start, self.destroyed) = (true, true);
    }

    /// The node on it will never come back.
    fn drop_node(&mut self) {
        self.lost_nodes.push(self.id);
        self.data_losses += 1;
        self.running = None;
        self.backup = None;
    }

    fn save_backup(&mut self) {
        if self.settings.bug != Some(InjectedBug::OldDisk) || self.node().is_none() {
            return;
        }
        match &mut self.backup {
            Some((_, again)) => *again = true,
            none => *none = Some((self.host.fs().cut_power(PowerCutLoss::None, 0), false)),
        }
    }

    /// Begins to stop it in good order; when it `leaves` the others are told of it.
    pub(crate) fn stop(&mut self, leaves: bool) {
        let Some(running) = &mut self.running else { return };
        let Some(parts) = running.parts.take() else { return };
        let (node, stopping) = (running.node.clone(), Arc::clone(&running.stopping));
        self.host.spawn(async move {
            node.cluster.update_facts(|facts| facts.draining = true);
            let queue = Arc::clone(&node.queue);
            run_blocking(&node.tasks, move || queue.close()).await;
            parts.drain(DRAIN_TIMEOUT).await;
            let is_drained = node.queue.uncommitted_segments().is_empty();
            parts.stop(STOP_TIMEOUT).await;
            let stopped = match is_drained {
                false => NOT_DRAINED,
                true if leaves && !node.cluster.leave().await => LEAVE_NOT_ACKNOWLEDGED,
                true => DRAINED,
            };
            stopping.store(stopped, Ordering::Relaxed);
        });
    }

    /// Ends the process of a node that has stopped in good order.
    pub(crate) fn take_stop_outcome(&mut self) -> Option<StopOutcome> {
        let running = self.running.as_ref().filter(|running| running.parts.is_none())?;
        let stopped = match running.stopping.load(Ordering::Relaxed) {
            STOPPING => return None,
            DRAINED => StopOutcome::Drained,
            LEAVE_NOT_ACKNOWLEDGED => StopOutcome::LeaveNotAcknowledged,
            _ => StopOutcome::NotDrained,
        };
        self.host.kill();
        self.running = None;
        Some(stopped)
    }
}
