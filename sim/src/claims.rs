//! Whether it is true what a store claims of those that are lost.
//!
//! A store that lists another in `Facts::made_good` says: of all that I hold, as many copies as promised are on stores that are not
//! lost. An answer relies on it much later, when further stores are lost; here it is checked when it is claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bucksaw_record::Id;

use crate::fleet::Fleet;
use crate::ledger::{Ledger, Violation};
use crate::scenario::Scenario;

/// The claims that were checked.
#[derive(Debug)]
pub(crate) struct Claims {
    /// Copies that other faults can have damaged or lost at the same time.
    spoilt: usize,
    checked: BTreeSet<(Id, Id)>,
}

impl Claims {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self { spoilt: scenario.victims.len().saturating_sub(1), checked: BTreeSet::new() }
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
        let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
        let few = due.into_iter().map(|id| (id, count(&id))).filter(|(_, count)| *count < wanted);
        few.map(|(id, count)| Violation::Underkept(id, count)).collect()
    }
}
