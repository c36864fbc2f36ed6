//! What must have come right when all has been well for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_cluster::MemberState;
use bucksaw_env::sim::World;
use bucksaw_ingest::Durability;
use bucksaw_node::Node;
use bucksaw_record::Id;

use crate::client::{AppendClient, producer};
use crate::ledger::{RecordLedger, Violation};
use crate::sim_cluster::SimCluster;

/// Where queues are.
const QUEUE: &str = "/data/queue";

/// Clients whose numbers begin here knock at each node when all is well.
const PROBE_CLIENT_FIRST: usize = 100;

/// Looks at what lies on all disks, as no client can.
pub(crate) fn check_stored(fleet: &SimCluster, ledger: &RecordLedger) -> Vec<Violation> {
    let stored = fleet.replicas();
    let mut found: Vec<(Id, Arc<str>)> = stored.iter().map(|(id, (_, text))| (*id, Arc::clone(text))).collect();
    for (at, _) in fleet.nodes() {
        for part in fleet.read_machine(at).into_iter().flatten() {
            found.extend(part.records());
        }
    }
    // The same may wait in two queues, when a client was in doubt, and wait in one and be stored.
    found.sort();
    found.dedup();
    // What a disk did not give back for a while was set aside: it is there, and told of.
    ledger.record_quarantined(&fleet.reported_damaged_ids());
    let due = ledger.required();
    let mut violations = ledger.check(&due, &found);
    violations.extend(ledger.take_reused_keys());
    violations.extend(under_replicated(fleet, &ledger.still_required(due.iter()), &stored));
    violations
}

/// Whether each record is kept as often as promised.
pub(crate) fn is_replicated(fleet: &SimCluster, ledger: &RecordLedger) -> bool {
    ledger.record_quarantined(&fleet.reported_damaged_ids());
    under_replicated(fleet, &ledger.still_required(ledger.required().iter()), &fleet.replicas()).is_empty()
}

/// Records that fewer stores keep than was promised, also where a store was lost since; unless there are not so many.
fn under_replicated(
    fleet: &SimCluster,
    due: &BTreeSet<Id>,
    stored: &BTreeMap<Id, (usize, Arc<str>)>,
) -> Vec<Violation> {
    let wanted = fleet.copies.min(fleet.stores_up());
    let counts = due.iter().filter_map(|id| Some((*id, stored.get(id)?.0)));
    counts.filter(|(_, count)| *count < wanted).map(|(id, count)| Violation::UnderReplicated(id, count)).collect()
}

/// What nodes have set aside as damaged they tell of for as long as it is there; and no queue has anything damaged where
/// nothing happened that does it.
pub(crate) fn check_damage(fleet: &SimCluster, is_spoilt: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, node) in fleet.nodes() {
        let queue = node.queue.damaged_file_names();
        let store: Vec<String> = node.store.quarantined_files().into_iter().map(|broken| broken.name).collect();
        let disk = fleet.machines.get(at).map(|machine| machine.host.fs().paths()).unwrap_or_default();
        for path in disk.iter().filter(|path| path.extension().is_some_and(|end| end == "damaged")) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let told = if path.starts_with(QUEUE) { &queue } else { &store };
            if path.components().count() > 3 && !told.contains(&name) {
                violations
                    .push(Violation::UnreportedDamage(format!("n{at} has {} and does not report it", path.display())));
            }
        }
        if !is_spoilt {
            let words = |name| {
                Violation::UnreportedDamage(format!("n{at} reports a damaged {name}, but no fault was injected"))
            };
            violations.extend(queue.iter().map(words));
        }
    }
    violations
}

/// Takes the nodes that will never come back from the list, as a person does.
pub(crate) fn forget_lost_nodes(world: &World, fleet: &SimCluster) {
    let gone: Vec<Id> = fleet.machines.iter().flat_map(|machine| machine.lost_nodes.iter().copied()).collect();
    for (_, node) in fleet.nodes() {
        for id in gone.clone() {
            let cluster = Arc::clone(&node.cluster);
            // Others may have been told already.
            world.spawn(async move {
                let _ = cluster.forget(id).await;
            });
        }
    }
}

/// Whether nobody remembers nodes that will never come back.
pub(crate) fn are_lost_nodes_forgotten(fleet: &SimCluster) -> bool {
    let gone: BTreeSet<Id> = fleet.machines.iter().flat_map(|machine| machine.lost_nodes.iter().copied()).collect();
    let knows = |node: &Node| node.cluster.members().iter().any(|member| gone.contains(&member.facts.node));
    !fleet.nodes().any(|(_, node)| knows(node))
}

/// What was accepted was consumed.
pub(crate) fn check_consumed(fleet: &SimCluster) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, node) in fleet.nodes().filter(|(_, node)| node.queue.damaged_file_names().is_empty()) {
        let metrics = node.queue.metrics();
        let (accepted, consumed) = (metrics.accepted_bytes(), metrics.consumed_bytes());
        if consumed < accepted {
            violations.push(Violation::Stuck(format!("n{at} accepted {accepted} bytes, and {consumed} were consumed")));
        }
    }
    violations
}

/// All nodes that are up know of each other, and who is gone is gone.
pub(crate) fn check_membership(fleet: &SimCluster) -> Vec<Violation> {
    let up: BTreeSet<Id> = fleet.nodes().map(|(_, node)| node.id).collect();
    let mut violations = Vec::new();
    for (at, node) in fleet.nodes() {
        let members = node.cluster.members();
        let live: BTreeSet<Id> = members
            .iter()
            .filter(|member| member.state == MemberState::Alive)
            .map(|member| member.facts.node)
            .collect();
        if live != up {
            let words = format!("n{at} knows of {} nodes that are alive, and {} are", live.len(), up.len());
            violations.push(Violation::MembershipMismatch(words));
        }
        let suspects = members.iter().filter(|member| member.state == MemberState::Suspect).count();
        if suspects > 0 {
            violations.push(Violation::MembershipMismatch(format!("n{at} suspects {suspects} nodes")));
        }
    }
    violations
}

/// Machines that should be up are not.
pub(crate) fn check_up(fleet: &SimCluster) -> Vec<Violation> {
    let machines = fleet.machines.iter().enumerate();
    let down = machines.filter(|(_, machine)| !machine.cannot_start && machine.node().is_none());
    down.map(|(at, _)| Violation::Stuck(format!("n{at} does not start"))).collect()
}

/// Has every promise asked for at every node; done when `left` is zero.
pub(crate) fn probe_appends(world: &World, fleet: &SimCluster, ledger: &RecordLedger) -> AppendProbes {
    let left = Arc::new(AtomicUsize::new(0));
    let ingest = fleet.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest && !machine.cannot_start);
    let nodes: Vec<(usize, SocketAddr)> = ingest.map(|(at, machine)| (at, machine.host.address())).collect();
    for node in nodes {
        let name = format!("k{}", node.0);
        let client = AppendClient {
            host: world.add_host(&name),
            number: PROBE_CLIENT_FIRST + node.0,
            seed: 0,
            batch_interval: Duration::ZERO,
            nodes: Vec::new(),
            ledger: ledger.clone(),
            stop: Arc::default(),
            bug: None,
        };
        for (sequence, durability) in (0..).zip([Durability::Fast, Durability::Durable, Durability::Bulk]) {
            left.fetch_add(1, Ordering::Relaxed);
            let (client, left) = (client.clone(), Arc::clone(&left));
            client.host.clone().spawn(async move {
                if client.send_once(sequence, durability, node).await {
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    }
    AppendProbes(left)
}

/// Promises that were asked for and not given.
pub(crate) struct AppendProbes(Arc<AtomicUsize>);

impl AppendProbes {
    /// Whether all were given.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The records of all who knocked.
    pub(crate) fn required(&self, ledger: &RecordLedger) -> BTreeSet<Id> {
        let first = producer(PROBE_CLIENT_FIRST).bits();
        let is_theirs = |id: &Id| !id.producer().is_keyed() && id.producer().bits() >= first;
        ledger.required().into_iter().filter(is_theirs).collect()
    }

    pub(crate) fn check(&self) -> Vec<Violation> {
        match self.0.load(Ordering::Relaxed) {
            0 => Vec::new(),
            left => vec![Violation::Unanswered(format!("{left} appends were not acknowledged in a healthy cluster"))],
        }
    }
}
