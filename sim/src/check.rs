//! What must have come right when all has been well for a while.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_cluster::State;
use bucksaw_doors::sim::World;
use bucksaw_ingest::Durability;
use bucksaw_record::Id;

use crate::client::Client;
use crate::fleet::Fleet;
use crate::ledger::{Ledger, Violation};

/// Whether lost copies are made anew on other stores. Nobody does that yet: the walker that compares stores will.
const IS_REPAIRED: bool = false;

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
    let telling = if IS_REPAIRED { BTreeSet::new() } else { fleet.telling() };
    for id in &due {
        let Some((count, _)) = stored.get(id) else { continue };
        if count + telling.len() < fleet.copies {
            violations.push(Violation::Underkept(*id, *count));
        }
    }
    violations
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

    pub(crate) fn check(&self) -> Vec<Violation> {
        match self.0.load(Ordering::Relaxed) {
            0 => Vec::new(),
            left => vec![Violation::Unanswered(format!("{left} promises were not given though all is well"))],
        }
    }
}
