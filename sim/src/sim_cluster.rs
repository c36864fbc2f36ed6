//! All machines of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bucksaw_cluster::{Member, MemberState};
use bucksaw_env::sim::{self, World};
use bucksaw_node::Node;
use bucksaw_record::Id;

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
    /// Stores that are lost for good: the nodes, and the records that were kept there and as often as promised.
    pub(crate) lost_stores: Vec<(Id, BTreeSet<Id>)>,
    /// Segments that were damaged: the machine, the name without its extension, and the records in it that were kept as often
    /// as promised.
    pub(crate) damaged_segments: BTreeMap<(usize, String), BTreeSet<Id>>,
}

impl SimCluster {
    /// The machines of a scenario, none of them up.
    pub(crate) fn build(world: &World, scenario: &Scenario, bug: Option<InjectedBug>) -> Self {
        let names: Vec<String> = (0..scenario.roles.len()).map(|number| format!("n{number}")).collect();
        // Those that come late are not known to the others before.
        let join = |is_late: bool| -> Vec<String> {
            let known = names.iter().enumerate().filter(|(at, _)| is_late || !scenario.late_joiners.contains(at));
            known.map(|(_, name)| format!("{name}:7659")).collect()
        };
        let machine = |(number, name): (usize, &String)| {
            let join = join(scenario.late_joiners.contains(&number));
            // What is planted is to be found with nothing else that is odd.
            let mixes = scenario.version_seed.filter(|_| bug.is_none());
            let settings = NodeSettings {
                version_seed: mixes,
                ..NodeSettings::for_simulation(scenario.copies, scenario.reserve, join, bug)
            };
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

    /// These machines.
    pub(crate) fn from_machines(machines: Vec<Machine>, copies: usize) -> Self {
        let caches = machines.iter().map(|_| RecordCache::default()).collect();
        Self { machines, copies, bug: None, caches, lost_stores: Vec::new(), damaged_segments: BTreeMap::new() }
    }

    /// Starts those that are not up.
    pub(crate) fn start_all(&mut self) {
        self.machines.iter_mut().for_each(Machine::start);
    }

    /// Those that are up, with their numbers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.machines.iter().enumerate().filter_map(|(at, machine)| Some((at, machine.node()?)))
    }

    /// The machines that are not members of the cluster for the node on machine `at`: late joiners of which it has not heard,
    /// and nodes that have left and whose return it has not heard of. Its complete answers need not have their records.
    pub(crate) fn unknown_to(&self, at: usize) -> BTreeSet<usize> {
        let members = self.machines.get(at).and_then(Machine::node).map(|node| node.cluster.members());
        let is_heard_of = |machine: &Machine| {
            let is_it = |member: &Member| member.facts.node == machine.id() && member.state != MemberState::Left;
            members.as_ref().is_some_and(|members| members.iter().any(is_it))
        };
        let unheard = |machine: &Machine| machine.joins_again && !is_heard_of(machine);
        self.machines.iter().enumerate().filter(|(_, machine)| unheard(machine)).map(|(at, _)| at).collect()
    }

    /// Machines that were started since this was called before.
    pub(crate) fn take_just_started(&mut self) -> Vec<usize> {
        let machines = self.machines.iter_mut().enumerate();
        machines.filter_map(|(at, machine)| std::mem::take(&mut machine.is_just_started).then_some(at)).collect()
    }

    /// The ids of each columnar block on the stores that are up.
    pub(crate) fn columnar_blocks(&self) -> Vec<BTreeSet<Id>> {
        let up = self.machines.iter().filter(|machine| machine.node().is_some());
        up.flat_map(|machine| columnar_blocks(&machine.host.fs())).collect()
    }

    /// Stores that are up.
    pub(crate) fn stores_up(&self) -> usize {
        self.nodes().filter(|(_, node)| node.roles.store).count()
    }

    pub(crate) fn hosts(&self) -> Vec<sim::Host> {
        self.machines.iter().map(|machine| machine.host.clone()).collect()
    }

    /// What a reader finds on one machine at this moment: first in its queue, then on its store. `None` when it is not up.
    pub(crate) fn read_machine(&self, at: usize) -> Option<[RecordsRead; 2]> {
        let (node, cache) = (self.machines.get(at)?.node()?, self.caches.get(at)?);
        Some([cache.queued(node), cache.stored(node)])
    }

    /// Something on a machine's disk was changed from outside.
    pub(crate) fn clear_cache(&self, at: usize) {
        self.caches.iter().skip(at).take(1).for_each(RecordCache::clear);
    }

    /// The records on the store of a machine.
    pub(crate) fn stored_ids(&self, at: usize) -> BTreeSet<Id> {
        let (Some(machine), Some(cache)) = (self.machines.get(at), self.caches.get(at)) else { return BTreeSet::new() };
        let found = match machine.node() {
            Some(node) => cache.held(node, &machine.host.fs()),
            None => cache.stored_on_disk(&machine.host.fs()),
        };
        found.records().map(|(id, _)| id).collect()
    }

    /// The node on a machine is about to be lost for good; `kept` need not rest on its queue.
    pub(crate) fn record_loss(&mut self, at: usize, kept: &BTreeSet<Id>) {
        let Some(node) = self.machines.get(at).map(Machine::id) else { return };
        let held = self.stored_ids(at).intersection(kept).copied().collect();
        self.lost_stores.push((node, held));
    }

    /// A segment on a machine is about to be damaged.
    pub(crate) fn record_damage(&mut self, at: usize, path: &Path) {
        let Some(disk) = self.machines.get(at).map(|machine| machine.host.fs()) else { return };
        let Some(stem) = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "seg")) else { return };
        let kept = self.replicated_without(at);
        let held = segment_ids(&disk, path).intersection(&kept).copied().collect::<Vec<_>>();
        self.damaged_segments.entry((at, stem.to_string_lossy().into_owned())).or_default().extend(held);
    }

    /// How many stores hold each record, up or down, and its text.
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

    /// The records that do not rest on this machine's queue any more: as many stores hold them as have to, and the queue was
    /// told so. Until then a store may give back what it took, and throw away what it made of it.
    pub(crate) fn replicated_without(&self, at: usize) -> BTreeSet<Id> {
        let waiting = self.machines.get(at).map(|machine| pending_ids_on_disk(&machine.host.fs())).unwrap_or_default();
        let is_kept = |(id, (count, _)): &(Id, (usize, Arc<str>))| *count >= self.copies && !waiting.contains(id);
        self.replicas().into_iter().filter(is_kept).map(|(id, _)| id).collect()
    }

    /// Records that queues still have: what a store makes of them counts only when they are told.
    pub(crate) fn pending_ids(&self) -> BTreeSet<Id> {
        let left = self.machines.iter().filter(|machine| !machine.destroyed);
        left.flat_map(|machine| pending_ids_on_disk(&machine.host.fs())).collect()
    }

    /// Segments that wait in queues, and no store has taken.
    pub(crate) fn pending_segments(&self) -> usize {
        self.nodes().map(|(_, node)| node.queue.uncommitted_segments().len()).sum()
    }

    /// Records in files that queues have set aside, and tell of: a person has to look at them.
    pub(crate) fn reported_damaged_ids(&self) -> BTreeSet<Id> {
        let machines = self.machines.iter().filter_map(|machine| Some((machine.node()?, machine.host.fs())));
        machines.flat_map(|(node, disk)| reported_damaged_ids(node, &disk)).collect()
    }
}
