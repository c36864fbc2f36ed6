//! One machine of a simulated cluster: a host of the world, with a Bucksaw node while it is up.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bucksaw_env::sim::{self, PowerCutLoss};
use bucksaw_node::{Config, Environment, Metrics, Node, NodeTasks, Roles, StopOutcome};
use bucksaw_query::{Answers, ScanPool};
use bucksaw_record::{Id, Millis, Producer};
#[cfg(test)]
use bucksaw_store::repair::Repair;
use prometheus_client::registry::Registry;

use crate::append::{self, AppendBehavior};
use crate::disk_keys;
use crate::injected_bug::{InjectedBug, calls, files, peers};
use crate::program_version::ProgramVersion;
use crate::rng::SeededRng;
use crate::settings::{DIR, NodeSettings};

/// A machine, up or not.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) host: sim::Host,
    pub(crate) roles: Roles,
    /// Not to be started: it joins later, or is gone for good.
    pub(crate) cannot_start: bool,
    /// Its disk is gone for good.
    pub(crate) destroyed: bool,
    /// How often it lost unsynced data or its disk.
    pub(crate) data_losses: u64,
    /// The number of power cuts.
    pub(crate) power_cuts: u64,
    /// Its node joins a running cluster, perhaps again, so other nodes may not have it as a member yet.
    pub(crate) joins_again: bool,
    /// Started, and not queried since.
    pub(crate) is_just_started: bool,
    /// Former nodes of the machine that are gone for good without an acknowledged leave.
    pub(crate) lost_nodes: Vec<Id>,
    /// The version that runs, or runs at the next start.
    pub(crate) version: ProgramVersion,
    start_count: u64,
    id: Id,
    pub(crate) settings: NodeSettings,
    running: Option<RunningMachine>,
    /// The disk at an earlier crash, and whether it has crashed again since.
    backup: Option<(sim::Fs, bool)>,
}

#[derive(Debug)]
struct RunningMachine {
    node: Node,
    /// `None` while the node stops.
    tasks: Option<NodeTasks>,
    /// Set when an orderly stop has ended.
    outcome: Arc<OnceLock<StopOutcome>>,
}

/// More than the machines of a run; the distance of the node ids of one machine.
const NODES_MAX: u64 = 100;

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
            joins_again: false,
            is_just_started: false,
            lost_nodes: Vec::new(),
            version: ProgramVersion::Current,
            start_count: 0,
            running: None,
            backup: None,
        }
    }

    /// The id of its node, which belongs to the disk.
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// The running node.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.running.as_ref().map(|running| &running.node)
    }

    /// The queries of the running node.
    pub(crate) fn answers(&self) -> Option<Answers> {
        self.node().map(Node::answers)
    }

    /// Repair of the running node, if it is a store.
    #[cfg(test)]
    pub(crate) fn repair(&self) -> Option<&Arc<Repair>> {
        self.node()?.repair.as_ref()
    }

    /// Whether it is up and not stopping.
    pub(crate) fn is_steady(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.tasks.is_some())
    }

    /// Starts the machine if it is down. It stays down if the node cannot open its files.
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

    /// Draws the version of the next start.
    fn choose_version(&mut self) {
        self.start_count += 1;
        if let Some(seed) = self.settings.version_seed {
            let is_next = SeededRng::new(seed ^ self.id.producer().bits() << 32 ^ self.start_count).percent(50);
            let next = if is_next { ProgramVersion::Next } else { ProgramVersion::Current };
            self.upgrade(next);
        }
    }

    /// Sets the version of the next start. The previous version leaves its files.
    pub(crate) fn upgrade(&mut self, version: ProgramVersion) {
        std::mem::replace(&mut self.version, version).write_member_file(&self.host.fs());
    }

    fn open(&self) -> Option<RunningMachine> {
        let (mut env, tasks, net) = (self.host.env(), self.host.tasks(), self.version.net(&self.host));
        env.fs = files::inject(self.settings.bug, env.fs);
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
        if self.settings.is_encrypted {
            env.fs = disk_keys::encrypt(env.fs, self.start_count, Arc::clone(&env.entropy));
        }
        let environment = Environment { env, tasks, net, pool: ScanPool::inline() };
        let node = Node::open(self.config(), environment, Metrics::new(&mut Registry::default())).ok()?;
        node.cluster.update_facts(|facts| facts.formats = self.version.formats());
        let tasks = node.start();
        if self.roles.ingest {
            append::register_calls(&node, AppendBehavior::new(self.settings.bug, self.data_losses));
        }
        let node = self.inject_bug(node);
        Some(RunningMachine { node, tasks: Some(tasks), outcome: Arc::default() })
    }

    fn config(&self) -> Config {
        let (settings, mut config) = (&self.settings, Config::new(self.id, self.roles, DIR.into()));
        let own = format!("{}:{}", self.host.name(), self.host.address().port());
        config.has_other_seeds =
            settings.bug != Some(InjectedBug::NewNodeAssumesAlone) && settings.join.iter().any(|seed| *seed != own);
        config.queue = settings.queue.clone();
        config.store = settings.store.clone();
        config.query = settings.query.clone();
        config.busy_bytes_per_second = settings.busy_bytes_per_second;
        config.cluster.join.clone_from(&settings.join);
        config.cluster.version = self.version.protocol();
        config
    }

    /// Replaces what the bug changes in a node that has just started.
    fn inject_bug(&self, node: Node) -> Node {
        let Some(bug) = self.settings.bug else { return node };
        calls::inject(bug, &node);
        peers::inject(bug, node)
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.save_backup();
        if self.settings.bug == Some(InjectedBug::WritesBuffered) {
            self.host.cut_power(PowerCutLoss::All);
        } else {
            self.host.kill();
        }
        self.running = None;
    }

    /// Cuts the power.
    pub(crate) fn cut_power(&mut self, how: PowerCutLoss) {
        self.save_backup();
        self.host.cut_power(how);
        self.data_losses += 1;
        self.power_cuts += 1;
        self.running = None;
    }

    /// Replaces the disk by an empty one. The machine restarts as another node, because the disk holds the node id.
    pub(crate) fn lose_disk(&mut self) {
        self.host.cut_power(PowerCutLoss::All);
        self.host.set_disk(sim::Fs::new());
        self.drop_node();
        let next = Producer::new(self.id.producer().bits() + NODES_MAX);
        self.id = Id::new(self.id.time(), next, 0);
        self.joins_again = true;
    }

    /// Copies the disk of another machine, with its node id. The machine must be down; it may be started then.
    #[cfg(test)]
    pub(crate) fn clone_disk_from(&mut self, other: &Self) {
        self.host.set_disk(other.host.fs().cut_power(PowerCutLoss::None, 0));
        (self.id, self.cannot_start) = (other.id, false);
    }

    /// Destroys the machine and its disk.
    pub(crate) fn destroy(&mut self) {
        self.host.cut_power(PowerCutLoss::All);
        self.drop_node();
        (self.cannot_start, self.destroyed) = (true, true);
    }

    /// Removes the machine after its node has left. If no node acknowledged the leave, the node has to be forgotten.
    pub(crate) fn retire(&mut self, is_leave_acknowledged: bool) {
        self.host.cut_power(PowerCutLoss::All);
        self.running = None;
        self.lost_nodes.extend((!is_leave_acknowledged).then_some(self.id));
        (self.cannot_start, self.destroyed) = (true, true);
    }

    /// The node is gone for good.
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
            Some((_, has_crashed_again)) => *has_crashed_again = true,
            none => *none = Some((self.host.fs().cut_power(PowerCutLoss::None, 0), false)),
        }
    }

    /// Starts an orderly stop.
    pub(crate) fn stop(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Some(tasks) = running.tasks.take() else { return };
        self.joins_again = true;
        let (node, outcome) = (running.node.clone(), Arc::clone(&running.outcome));
        self.host.spawn(async move {
            node.cluster.update_facts(|facts| facts.draining = true);
            let _ = outcome.set(tasks.stop().await);
        });
    }

    /// Ends the process of a node that has stopped.
    pub(crate) fn take_stop_outcome(&mut self) -> Option<StopOutcome> {
        let outcome = *self.running.as_ref()?.outcome.get()?;
        self.host.kill();
        self.running = None;
        Some(outcome)
    }
}
