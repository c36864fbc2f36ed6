//! Whether it is true what a store claims of those that are lost.
//!
//! A store that lists another in `Facts::made_good` says: of all that I hold, as many copies as promised are on stores that are not
//! lost. An answer relies on it much later, when further stores are lost; here it is checked when it is claimed.
//! A store that takes a damaged file, or damaged blocks, for made good claims that each of the records can be read elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bucksaw_record::{Id, Millis};
use bucksaw_store::Broken;

use crate::fleet::Fleet;
use crate::ledger::{Ledger, Violation};
use crate::machine::Machine;
use crate::scenario::Scenario;

/// The claims that were checked.
#[derive(Debug)]
pub(crate) struct Claims {
    /// Copies that other faults can have damaged or lost at the same time.
    spoilt: usize,
    checked: BTreeSet<(Id, Id)>,
    /// Files by their name without its end, and of which time they lack records.
    checked_files: BTreeSet<(usize, String, Millis, Millis)>,
}

impl Claims {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            spoilt: scenario.victims.len().saturating_sub(1),
            checked: BTreeSet::new(),
            checked_files: BTreeSet::new(),
        }
    }

    /// What is wrong with claims that were made since the last call.
    pub(crate) fn check(&mut self, fleet: &Fleet, ledger: &Ledger) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut stored = None;
        for (lost, held) in &fleet.losses {
            for (at, node) in fleet.nodes() {
                let made_good = node.cluster.facts().made_good;
                if made_good.is_empty() || self.checked.contains(&(node.id, *lost)) {
                    continue;
                }
                let members = node.cluster.members();
                let is_it =
                    |mark: u64| members.iter().any(|member| member.facts.node == *lost && member.facts.mark() == mark);
                if made_good.into_iter().any(is_it) {
                    self.checked.insert((node.id, *lost));
                    let stored = stored.get_or_insert_with(|| fleet.stored());
                    violations.extend(self.check_one(fleet, ledger, held, at, stored));
                }
            }
        }
        for ((at, stem), held) in &fleet.spoilt {
            let Some(node) = fleet.machines.get(*at).and_then(Machine::node) else { continue };
            let is_it = |broken: &Broken| broken.is_made_good() && broken.name.starts_with(stem);
            for broken in node.shelf.damage().into_iter().filter(is_it) {
                if !self.checked_files.insert((*at, stem.clone(), broken.low, broken.high)) {
                    continue;
                }
                let stored = stored.get_or_insert_with(|| fleet.stored());
                // Copies that were made on victims may be damaged already.
                let wanted = fleet.copies.saturating_sub(self.spoilt + 1).max(1);
                violations.extend(too_few(&ledger.still(held.iter()), stored, wanted));
            }
        }
        violations
    }

    fn check_one(
        &self,
        fleet: &Fleet,
        ledger: &Ledger,
        held: &BTreeSet<Id>,
        at: usize,
        stored: &BTreeMap<Id, (usize, Arc<str>)>,
    ) -> Vec<Violation> {
        let wanted = fleet.copies.min(fleet.stores()).saturating_sub(self.spoilt);
        let both = fleet.held(at);
        // What the store has taken since it claimed this, and has not yet told the queues, rests on these.
        let waiting = fleet.waiting_ids();
        let due = ledger.still(held.intersection(&both).filter(|id| !waiting.contains(id)));
        let due = ledger.unspoilt(due);
        let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
        for id in due.iter().filter(|id| count(id) < wanted).take(1) {
            let holders: Vec<usize> = (0..fleet.machines.len()).filter(|at| fleet.held(*at).contains(id)).collect();
            tracing::debug!(%id, claims = at, ?holders, wanted, "a claim does not hold");
        }
        too_few(&due, stored, wanted)
    }
}

/// Those of these records that fewer stores hold.
fn too_few(due: &BTreeSet<Id>, stored: &BTreeMap<Id, (usize, Arc<str>)>, wanted: usize) -> Vec<Violation> {
    let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
    let few = due.iter().map(|id| (*id, count(id))).filter(|(_, count)| *count < wanted);
    few.map(|(id, count)| Violation::Underkept(id, count)).collect()
}
