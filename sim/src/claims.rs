//! Whether it is true what a store claims of those that are lost.
//!
//! A store that lists another in `Facts::re_replicated` says: of all that I hold, as many copies as promised are on stores that are not
//! lost. An answer relies on it much later, when further stores are lost; here it is checked when it is claimed.
//! A store that takes a damaged file, or damaged blocks, for made good claims that each of the records can be read elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bucksaw_record::{Id, Millis};
use bucksaw_store::DamagedSegment;

use crate::ledger::{RecordLedger, Violation};
use crate::machine::Machine;
use crate::scenario::Scenario;
use crate::sim_cluster::SimCluster;

/// The claims that were checked.
#[derive(Debug)]
pub(crate) struct RepairClaims {
    /// Copies that other faults can have damaged or lost at the same time.
    other_faulty_stores: usize,
    checked_losses: BTreeSet<(Id, Id)>,
    /// Files by their name without its end, and of which time they lack records.
    checked_repairs: BTreeSet<(usize, String, Millis, Millis)>,
}

impl RepairClaims {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            other_faulty_stores: scenario.faulty_stores.len().saturating_sub(1),
            checked_losses: BTreeSet::new(),
            checked_repairs: BTreeSet::new(),
        }
    }

    /// What is wrong with claims that were made since the last call.
    pub(crate) fn check(&mut self, fleet: &SimCluster, ledger: &RecordLedger) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut stored = None;
        for (lost, held) in &fleet.lost_stores {
            for (at, node) in fleet.nodes() {
                let made_good = node.cluster.facts().re_replicated;
                if made_good.is_empty() || self.checked_losses.contains(&(node.id, *lost)) {
                    continue;
                }
                let members = node.cluster.members();
                let is_it = |mark: u64| {
                    members.iter().any(|member| member.facts.node == *lost && member.facts.fingerprint() == mark)
                };
                if made_good.into_iter().any(is_it) {
                    self.checked_losses.insert((node.id, *lost));
                    let stored = stored.get_or_insert_with(|| fleet.replicas());
                    violations.extend(self.check_claim(fleet, ledger, held, at, stored));
                }
            }
        }
        for ((at, stem), held) in &fleet.damaged_segments {
            let Some(node) = fleet.machines.get(*at).and_then(Machine::node) else { continue };
            let is_it = |broken: &DamagedSegment| broken.is_re_replicated() && broken.name.starts_with(stem);
            for broken in node.store.damaged_segments().into_iter().filter(is_it) {
                if !self.checked_repairs.insert((*at, stem.clone(), broken.low, broken.high)) {
                    continue;
                }
                let stored = stored.get_or_insert_with(|| fleet.replicas());
                // Copies that were made on victims may be damaged already.
                let wanted = fleet.copies.saturating_sub(self.other_faulty_stores + 1).max(1);
                violations.extend(under_replicated(&ledger.still_required(held.iter()), stored, wanted));
            }
        }
        violations
    }

    fn check_claim(
        &self,
        fleet: &SimCluster,
        ledger: &RecordLedger,
        held: &BTreeSet<Id>,
        at: usize,
        stored: &BTreeMap<Id, (usize, Arc<str>)>,
    ) -> Vec<Violation> {
        let wanted = fleet.copies.min(fleet.stores_up()).saturating_sub(self.other_faulty_stores);
        let both = fleet.stored_ids(at);
        // What the store has taken since it claimed this, and has not yet told the queues, rests on these.
        let waiting = fleet.pending_ids();
        let due = ledger.still_required(held.intersection(&both).filter(|id| !waiting.contains(id)));
        let due = ledger.without_damaged(due);
        let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
        for id in due.iter().filter(|id| count(id) < wanted).take(1) {
            let holders: Vec<usize> =
                (0..fleet.machines.len()).filter(|at| fleet.stored_ids(*at).contains(id)).collect();
            tracing::debug!(%id, claims = at, ?holders, wanted, "a repair claim is false");
        }
        under_replicated(&due, stored, wanted)
    }
}

/// Those of these records that fewer stores hold.
fn under_replicated(due: &BTreeSet<Id>, stored: &BTreeMap<Id, (usize, Arc<str>)>, wanted: usize) -> Vec<Violation> {
    let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
    let few = due.iter().map(|id| (*id, count(id))).filter(|(_, count)| *count < wanted);
    few.map(|(id, count)| Violation::UnderReplicated(id, count)).collect()
}
