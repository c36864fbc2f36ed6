//! The final checks, after all faults have ended.

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

const QUEUE: &str = "/data/queue";

/// The number of the first client that probes a node in the healthy cluster.
const PROBE_CLIENT_FIRST: usize = 100;

/// Checks the records on all disks.
pub(crate) fn check_stored(cluster: &SimCluster, ledger: &RecordLedger) -> Vec<Violation> {
    let stored = cluster.replicas();
    let mut found: Vec<(Id, Arc<str>)> = stored.iter().map(|(id, (_, text))| (*id, Arc::clone(text))).collect();
    for (at, _) in cluster.nodes() {
        for part in cluster.read_machine(at).into_iter().flatten() {
            found.extend(part.records());
        }
    }
    // After a retry a record may be in two queues, or in a queue and stored.
    found.sort();
    found.dedup();
    // Files that could not be read for a while are quarantined and reported.
    ledger.record_quarantined(&cluster.reported_damaged_ids());
    let required = ledger.required();
    let mut violations = ledger.check(&required, &found);
    violations.extend(ledger.take_reused_keys());
    violations.extend(under_replicated(cluster, &ledger.still_required(required.iter()), &stored));
    violations
}

/// Whether each record has all its replicas.
pub(crate) fn is_replicated(cluster: &SimCluster, ledger: &RecordLedger) -> bool {
    ledger.record_quarantined(&cluster.reported_damaged_ids());
    under_replicated(cluster, &ledger.still_required(ledger.required().iter()), &cluster.replicas()).is_empty()
}

/// The records on fewer stores than the replication factor, or than there are stores.
fn under_replicated(
    cluster: &SimCluster,
    required: &BTreeSet<Id>,
    stored: &BTreeMap<Id, (usize, Arc<str>)>,
) -> Vec<Violation> {
    let wanted = cluster.copies.min(cluster.stores_up());
    let counts = required.iter().filter_map(|id| Some((*id, stored.get(id)?.0)));
    counts.filter(|(_, count)| *count < wanted).map(|(id, count)| Violation::UnderReplicated(id, count)).collect()
}

/// Every quarantined file must be reported, and no damage without a fault that may cause it.
pub(crate) fn check_damage(cluster: &SimCluster, may_be_damaged: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, node) in cluster.nodes() {
        let queue = node.queue.damaged_file_names();
        let store: Vec<String> =
            node.store.status().quarantined_files.into_iter().map(|segment| segment.name).collect();
        let disk = cluster.machines.get(at).map(|machine| machine.host.fs().paths()).unwrap_or_default();
        for path in disk.iter().filter(|path| path.extension().is_some_and(|end| end == "damaged")) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let reported = if path.starts_with(QUEUE) { &queue } else { &store };
            if path.components().count() > 3 && !reported.contains(&name) {
                violations
                    .push(Violation::UnreportedDamage(format!("n{at} has {} and does not report it", path.display())));
            }
        }
        if !may_be_damaged {
            let violation = |name| {
                Violation::UnreportedDamage(format!("n{at} reports a damaged {name}, but no fault was injected"))
            };
            violations.extend(queue.iter().map(violation));
        }
    }
    violations
}

/// Forgets the nodes that are gone for good, as an operator does.
pub(crate) fn forget_lost_nodes(world: &World, cluster: &SimCluster) {
    let gone: Vec<Id> = cluster.machines.iter().flat_map(|machine| machine.lost_nodes.iter().copied()).collect();
    for (_, node) in cluster.nodes() {
        for id in gone.clone() {
            let cluster = Arc::clone(&node.cluster);
            // Another node may have forgotten it already.
            world.spawn(async move {
                let _ = cluster.forget(id).await;
            });
        }
    }
}

/// Whether no node has a member that is gone for good.
pub(crate) fn are_lost_nodes_forgotten(cluster: &SimCluster) -> bool {
    let gone: BTreeSet<Id> = cluster.machines.iter().flat_map(|machine| machine.lost_nodes.iter().copied()).collect();
    let has_gone_member = |node: &Node| node.cluster.members().iter().any(|member| gone.contains(&member.facts.node));
    !cluster.nodes().any(|(_, node)| has_gone_member(node))
}

/// All accepted bytes must be consumed.
pub(crate) fn check_consumed(cluster: &SimCluster) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, node) in cluster.nodes().filter(|(_, node)| node.queue.damaged_file_names().is_empty()) {
        let metrics = node.queue.metrics();
        let (accepted, consumed) = (metrics.accepted_bytes(), metrics.consumed_bytes());
        if consumed < accepted {
            violations.push(Violation::Stuck(format!("n{at} accepted {accepted} bytes and consumed {consumed}")));
        }
    }
    violations
}

/// The live members of every node must be the running nodes.
pub(crate) fn check_membership(cluster: &SimCluster) -> Vec<Violation> {
    let up: BTreeSet<Id> = cluster.nodes().map(|(_, node)| node.id).collect();
    let mut violations = Vec::new();
    for (at, node) in cluster.nodes() {
        let members = node.cluster.members();
        let live: BTreeSet<Id> = members
            .iter()
            .filter(|member| member.state == MemberState::Alive)
            .map(|member| member.facts.node)
            .collect();
        if live != up {
            let message = format!("n{at} has {} live members, and {} nodes are up", live.len(), up.len());
            violations.push(Violation::MembershipMismatch(message));
        }
        let suspects = members.iter().filter(|member| member.state == MemberState::Suspect).count();
        if suspects > 0 {
            violations.push(Violation::MembershipMismatch(format!("n{at} suspects {suspects} nodes")));
        }
    }
    violations
}

/// Machines that may start must be up.
pub(crate) fn check_up(cluster: &SimCluster) -> Vec<Violation> {
    let machines = cluster.machines.iter().enumerate();
    let down = machines.filter(|(_, machine)| !machine.cannot_start && machine.node().is_none());
    down.map(|(at, _)| Violation::Stuck(format!("n{at} does not start"))).collect()
}

/// Appends with each durability at every node.
pub(crate) fn probe_appends(world: &World, cluster: &SimCluster, ledger: &RecordLedger) -> AppendProbes {
    let left = Arc::new(AtomicUsize::new(0));
    let ingest =
        cluster.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest && !machine.cannot_start);
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

/// The number of probe appends that are not acknowledged.
pub(crate) struct AppendProbes(Arc<AtomicUsize>);

impl AppendProbes {
    /// Whether all are acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The records of the probes.
    pub(crate) fn required(&self, ledger: &RecordLedger) -> BTreeSet<Id> {
        let first = producer(PROBE_CLIENT_FIRST).bits();
        let is_of_probe = |id: &Id| !id.producer().is_keyed() && id.producer().bits() >= first;
        ledger.required().into_iter().filter(is_of_probe).collect()
    }

    pub(crate) fn check(&self) -> Vec<Violation> {
        match self.0.load(Ordering::Relaxed) {
            0 => Vec::new(),
            left => vec![Violation::Unanswered(format!("{left} appends were not acknowledged in a healthy cluster"))],
        }
    }
}
