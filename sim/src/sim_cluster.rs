//! The machines of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bucksaw_cluster::{Member, MemberState};
use bucksaw_env::sim::{self, World};
use bucksaw_node::Node;
use bucksaw_record::{Id, Millis};
use bucksaw_store::erasure::Erasure;

use crate::injected_bug::InjectedBug;
use crate::machine::Machine;
use crate::records::{
    RecordCache, RecordsRead, columnar_blocks, pending_ids_on_disk, reported_damaged_ids, segment_ids,
};
use crate::scenario::Scenario;
use crate::settings::NodeSettings;

pub(crate) struct SimCluster {
    pub(crate) machines: Vec<Machine>,
    pub(crate) copies: usize,
    /// The bug that is injected into all nodes and queries.
    pub(crate) bug: Option<InjectedBug>,
    caches: Vec<RecordCache>,
    /// The nodes that have acknowledged an erasure, and the end of its time range.
    pub(crate) erased_before: BTreeMap<Id, Millis>,
    /// The erasure that all members have acknowledged.
    pub(crate) erasure: Option<Erasure>,
    /// Lost stores: the node, and those of its records that had all their replicas.
    pub(crate) lost_stores: Vec<(Id, BTreeSet<Id>)>,
    /// Damaged segments by machine and name without extension: those of its records that had all their replicas.
    pub(crate) damaged_segments: BTreeMap<(usize, String), BTreeSet<Id>>,
}

impl SimCluster {
    /// The machines of a scenario, all down.
    pub(crate) fn build(world: &World, scenario: &Scenario, bug: Option<InjectedBug>) -> Self {
        let names: Vec<String> = (0..scenario.roles.len()).map(|number| format!("n{number}")).collect();
        // Late joiners are no seeds of the other nodes.
        let join = |is_late: bool| -> Vec<String> {
            let known = names.iter().enumerate().filter(|(at, _)| is_late || !scenario.late_joiners.contains(at));
            known.map(|(_, name)| format!("{name}:7659")).collect()
        };
        let machine = |(number, name): (usize, &String)| {
            let join = join(scenario.late_joiners.contains(&number));
            // An injected bug must be found in runs of one version.
            let version_seed = scenario.version_seed.filter(|_| bug.is_none());
            // Some read the files themselves.
            let is_encrypted = scenario.is_encrypted && bug.is_none();
            let settings = NodeSettings {
                version_seed,
                is_encrypted,
                ..NodeSettings::for_simulation(scenario.copies, scenario.reserve, join, bug)
            };
            // Some injected bugs are in columns.
            let settings = if bug.is_none() { settings.with_quick_codec(scenario.quick_codec) } else { settings };
            let settings = if scenario.has_little_memory { settings.with_little_memory() } else { settings };
            let roles = scenario.roles.get(number).copied().unwrap_or_default();
            let mut machine = Machine::new(world.add_host(name), number, roles, settings);
            machine.cannot_start = scenario.late_joiners.contains(&number);
            machine.joins_again = machine.cannot_start;
            machine
        };
        let machines = names.iter().enumerate().map(machine).collect();
        Self { bug, ..Self::from_machines(machines, scenario.copies) }
    }

    pub(crate) fn from_machines(machines: Vec<Machine>, copies: usize) -> Self {
        let caches = machines.iter().map(|_| RecordCache::default()).collect();
        Self {
            machines,
            copies,
            bug: None,
            caches,
            erased_before: BTreeMap::new(),
            erasure: None,
            lost_stores: Vec::new(),
            damaged_segments: BTreeMap::new(),
        }
    }

    /// Starts the machines that are down.
    pub(crate) fn start_all(&mut self) {
        self.machines.iter_mut().for_each(Machine::start);
    }

    /// The running nodes with the numbers of their machines.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.machines.iter().enumerate().filter_map(|(at, machine)| Some((at, machine.node()?)))
    }

    /// The machines that the node on machine `at` does not have as members: late joiners, and nodes that left and returned. Its
    /// complete answers need not have their records.
    pub(crate) fn unknown_to(&self, at: usize) -> BTreeSet<usize> {
        let members = self.machines.get(at).and_then(Machine::node).map(|node| node.cluster.members());
        let is_member = |machine: &Machine| {
            let is_same = |member: &Member| member.facts.node == machine.id() && member.state != MemberState::Left;
            members.as_ref().is_some_and(|members| members.iter().any(is_same))
        };
        let is_unknown = |machine: &Machine| machine.joins_again && !is_member(machine);
        self.machines.iter().enumerate().filter(|(_, machine)| is_unknown(machine)).map(|(at, _)| at).collect()
    }

    /// The machines started since the last call.
    pub(crate) fn take_just_started(&mut self) -> Vec<usize> {
        let machines = self.machines.iter_mut().enumerate();
        machines.filter_map(|(at, machine)| std::mem::take(&mut machine.is_just_started).then_some(at)).collect()
    }

    /// The ids of each columnar block on the running stores.
    pub(crate) fn columnar_blocks(&self) -> Vec<BTreeSet<Id>> {
        let up = self.machines.iter().filter(|machine| machine.node().is_some());
        up.flat_map(|machine| columnar_blocks(&machine.host.fs())).collect()
    }

    /// The number of running stores.
    pub(crate) fn stores_up(&self) -> usize {
        self.nodes().filter(|(_, node)| node.roles.store).count()
    }

    pub(crate) fn hosts(&self) -> Vec<sim::Host> {
        self.machines.iter().map(|machine| machine.host.clone()).collect()
    }

    /// The records in the queue and in the store of a machine; `None` if it is down.
    pub(crate) fn read_machine(&self, at: usize) -> Option<[RecordsRead; 2]> {
        let (node, cache) = (self.machines.get(at)?.node()?, self.caches.get(at)?);
        Some([cache.queued(node), cache.stored(node)])
    }

    /// Forgets cached records after a change of a machine's disk by a fault.
    pub(crate) fn clear_cache(&self, at: usize) {
        self.caches.iter().skip(at).take(1).for_each(RecordCache::clear);
    }

    /// The ids of the records in the store of a machine.
    pub(crate) fn stored_ids(&self, at: usize) -> BTreeSet<Id> {
        let (Some(machine), Some(cache)) = (self.machines.get(at), self.caches.get(at)) else { return BTreeSet::new() };
        let found = match machine.node() {
            Some(node) => cache.held(node, &machine.host.fs()),
            None => cache.stored_on_disk(&machine.host.fs()),
        };
        found.records().map(|(id, _)| id).collect()
    }

    /// Called before the node on a machine is lost for good. `replicated` are the records that do not depend on its queue.
    pub(crate) fn record_loss(&mut self, at: usize, replicated: &BTreeSet<Id>) {
        let Some(node) = self.machines.get(at).map(Machine::id) else { return };
        let held = self.stored_ids(at).intersection(replicated).copied().collect();
        self.lost_stores.push((node, held));
    }

    /// Called before a segment on a machine is damaged.
    pub(crate) fn record_damage(&mut self, at: usize, path: &Path) {
        let Some(disk) = self.machines.get(at).map(|machine| machine.host.fs()) else { return };
        let Some(stem) = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "seg")) else { return };
        let replicated = self.replicated_without(at);
        let held = segment_ids(&disk, path).intersection(&replicated).copied().collect::<Vec<_>>();
        self.damaged_segments.entry((at, stem.to_string_lossy().into_owned())).or_default().extend(held);
    }

    /// For each record the number of stores, up or down, that hold it, and its text.
    pub(crate) fn replicas(&self) -> BTreeMap<Id, (usize, Arc<str>)> {
        let mut all: BTreeMap<Id, (usize, Arc<str>)> = BTreeMap::new();
        for (machine, cache) in self.machines.iter().zip(&self.caches) {
            let here = match machine.node() {
                Some(node) => cache.held(node, &machine.host.fs()),
                None if machine.destroyed => continue,
                None => cache.stored_on_disk(&machine.host.fs()),
            };
            let mut here: Vec<(Id, Arc<str>)> = here.records().collect();
            here.sort_by_key(|(id, _)| *id);
            here.dedup_by_key(|(id, _)| *id);
            for (id, text) in here {
                all.entry(id).or_insert((0, text)).0 += 1;
            }
        }
        all
    }

    /// The records that do not depend on this machine's queue: they have all their replicas, and the queue has committed them.
    /// Before the commit a store may return fetched segments and discard what it stored of them.
    pub(crate) fn replicated_without(&self, at: usize) -> BTreeSet<Id> {
        let pending = self.machines.get(at).map(|machine| pending_ids_on_disk(&machine.host.fs())).unwrap_or_default();
        let is_replicated = |(id, (count, _)): &(Id, (usize, Arc<str>))| *count >= self.copies && !pending.contains(id);
        self.replicas().into_iter().filter(is_replicated).map(|(id, _)| id).collect()
    }

    /// Records in queues that are not committed yet.
    pub(crate) fn pending_ids(&self) -> BTreeSet<Id> {
        let machines = self.machines.iter().filter(|machine| !machine.destroyed);
        machines.flat_map(|machine| pending_ids_on_disk(&machine.host.fs())).collect()
    }

    /// The records in the queue of a machine that its queue has not committed; `None` if the machine is down.
    #[cfg(test)]
    pub(crate) fn read_uncommitted(&self, at: usize) -> Option<RecordsRead> {
        Some(self.caches.get(at)?.uncommitted(self.machines.get(at)?.node()?))
    }

    /// The number of queue segments that are not committed.
    pub(crate) fn pending_segments(&self) -> usize {
        self.nodes().map(|(_, node)| node.queue.uncommitted_segments().len()).sum()
    }

    /// Records in quarantined files that queues report.
    pub(crate) fn reported_damaged_ids(&self) -> BTreeSet<Id> {
        let machines = self.machines.iter().filter_map(|machine| Some((machine.node()?, machine.host.fs())));
        machines.flat_map(|(node, disk)| reported_damaged_ids(node, &disk)).collect()
    }
}
