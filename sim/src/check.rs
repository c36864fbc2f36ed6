//! What must have come right when all has been well for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_cluster::State;
use bucksaw_doors::sim::World;
use bucksaw_ingest::Durability;
use bucksaw_node::Node;
use bucksaw_record::Id;

use crate::client::{Client, producer};
use crate::fleet::Fleet;
use crate::ledger::{Ledger, Violation};

/// Where queues are.
const QUEUE: &str = "/data/queue";

/// Clients whose numbers begin here knock at each node when all is well.
const KNOCKING: usize = 100;

/// Looks at what lies on all disks, as no client can.
pub(crate) fn stored(fleet: &Fleet, ledger: &Ledger) -> Vec<Violation> {
    let stored = fleet.stored();
    let mut found: Vec<(Id, Arc<str>)> = stored.iter().map(|(id, (_, text))| (*id, Arc::clone(text))).collect();
    for (at, _) in fleet.nodes() {
        for part in fleet.look(at).into_iter().flatten() {
            found.extend(part.records());
        }
    }
    // The same may wait in two queues, when a client was in doubt, and wait in one and be stored.
    found.sort();
    found.dedup();
    // What a disk did not give back for a while was set aside: it is there, and told of.
    ledger.was_set_aside(&fleet.told_aside());
    let due = ledger.due();
    let mut violations = ledger.check(&due, &found);
    violations.extend(ledger.reused());
    violations.extend(underkept(fleet, &ledger.still(due.iter()), &stored));
    violations
}

/// Whether each record is kept as often as promised.
pub(crate) fn is_kept(fleet: &Fleet, ledger: &Ledger) -> bool {
    ledger.was_set_aside(&fleet.told_aside());
    underkept(fleet, &ledger.still(ledger.due().iter()), &fleet.stored()).is_empty()
}

/// Records that fewer stores keep than was promised, also where a store was lost since; unless there are not so many.
fn underkept(fleet: &Fleet, due: &BTreeSet<Id>, stored: &BTreeMap<Id, (usize, Arc<str>)>) -> Vec<Violation> {
    let wanted = fleet.copies.min(fleet.stores());
    let counts = due.iter().filter_map(|id| Some((*id, stored.get(id)?.0)));
    counts.filter(|(_, count)| *count < wanted).map(|(id, count)| Violation::Underkept(id, count)).collect()
}

/// What nodes have set aside as damaged they tell of for as long as it is there; and no queue has anything damaged where
/// nothing happened that does it.
pub(crate) fn damage(fleet: &Fleet, is_spoilt: bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, node) in fleet.nodes() {
        let queue = node.queue.damaged();
        let shelf: Vec<String> = node.shelf.set_aside().into_iter().map(|broken| broken.name).collect();
        let disk = fleet.machines.get(at).map(|machine| machine.host.fs().paths()).unwrap_or_default();
        for path in disk.iter().filter(|path| path.extension().is_some_and(|end| end == "damaged")) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let told = if path.starts_with(QUEUE) { &queue } else { &shelf };
            if path.components().count() > 3 && !told.contains(&name) {
                violations.push(Violation::Hidden(format!("n{at} has {} and does not tell of it", path.display())));
            }
        }
        if !is_spoilt {
            let words = |name| Violation::Hidden(format!("n{at} has a damaged {name}, and nothing happened to it"));
            violations.extend(queue.iter().map(words));
        }
    }
    violations
}

/// Takes the nodes that will never come back from the list, as a person does.
pub(crate) fn forget(world: &World, fleet: &Fleet) {
    let gone: Vec<Id> = fleet.machines.iter().flat_map(|machine| machine.gone.iter().copied()).collect();
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
pub(crate) fn is_forgotten(fleet: &Fleet) -> bool {
    let gone: BTreeSet<Id> = fleet.machines.iter().flat_map(|machine| machine.gone.iter().copied()).collect();
    let knows = |node: &Node| node.cluster.members().iter().any(|member| gone.contains(&member.facts.node));
    !fleet.nodes().any(|(_, node)| knows(node))
}

/// What was accepted was consumed.
pub(crate) fn consumed(fleet: &Fleet) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (at, node) in fleet.nodes().filter(|(_, node)| node.queue.damaged().is_empty()) {
        let metrics = node.queue.metrics();
        let (accepted, consumed) = (metrics.accepted_bytes(), metrics.consumed_bytes());
        if consumed < accepted {
            violations.push(Violation::Stuck(format!("n{at} accepted {accepted} bytes, and {consumed} were consumed")));
        }
    }
    violations
}

/// All nodes that are up know of each other, and who is gone is gone.
pub(crate) fn agreed(fleet: &Fleet) -> Vec<Violation> {
    let up: BTreeSet<Id> = fleet.nodes().map(|(_, node)| node.id).collect();
    let mut violations = Vec::new();
    for (at, node) in fleet.nodes() {
        let members = node.cluster.members();
        let live: BTreeSet<Id> =
            members.iter().filter(|member| member.state == State::Alive).map(|member| member.facts.node).collect();
        if live != up {
            let words = format!("n{at} knows of {} nodes that are alive, and {} are", live.len(), up.len());
            violations.push(Violation::Divided(words));
        }
        let suspects = members.iter().filter(|member| member.state == State::Suspect).count();
        if suspects > 0 {
            violations.push(Violation::Divided(format!("n{at} suspects {suspects} nodes")));
        }
    }
    violations
}

/// Machines that should be up are not.
pub(crate) fn up(fleet: &Fleet) -> Vec<Violation> {
    let machines = fleet.machines.iter().enumerate();
    let down = machines.filter(|(_, machine)| !machine.away && machine.node().is_none());
    down.map(|(at, _)| Violation::Stuck(format!("n{at} does not start"))).collect()
}

/// Has every promise asked for at every node; done when `left` is zero.
pub(crate) fn knock(world: &World, fleet: &Fleet, ledger: &Ledger) -> Knocking {
    let left = Arc::new(AtomicUsize::new(0));
    let ingest = fleet.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest && !machine.away);
    let nodes: Vec<(usize, SocketAddr)> = ingest.map(|(at, machine)| (at, machine.host.address())).collect();
    for node in nodes {
        let name = format!("k{}", node.0);
        let client = Client {
            host: world.add_node(&name),
            number: KNOCKING + node.0,
            seed: 0,
            pace: Duration::ZERO,
            nodes: Vec::new(),
            ledger: ledger.clone(),
            stop: Arc::default(),
            planted: None,
        };
        for (sequence, durability) in (0..).zip([Durability::Fast, Durability::Durable, Durability::Bulk]) {
            left.fetch_add(1, Ordering::Relaxed);
            let (client, left) = (client.clone(), Arc::clone(&left));
            client.host.clone().spawn(async move {
                if client.knock(sequence, durability, node).await {
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    }
    Knocking(left)
}

/// Promises that were asked for and not given.
pub(crate) struct Knocking(Arc<AtomicUsize>);

impl Knocking {
    /// Whether all were given.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// The records of all who knocked.
    pub(crate) fn due(&self, ledger: &Ledger) -> BTreeSet<Id> {
        let first = producer(KNOCKING).bits();
        let is_theirs = |id: &Id| !id.producer().is_keyed() && id.producer().bits() >= first;
        ledger.due().into_iter().filter(is_theirs).collect()
    }

    pub(crate) fn check(&self) -> Vec<Violation> {
        match self.0.load(Ordering::Relaxed) {
            0 => Vec::new(),
            left => vec![Violation::Unanswered(format!("{left} promises were not given though all is well"))],
        }
    }
}
