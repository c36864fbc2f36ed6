//! Checks the claims of stores that something is re-replicated.
//!
//! A store that lists a lost store in `Facts::re_replicated` claims that all records that it holds have all their replicas on
//! stores that are not lost. Answers depend on the claim much later, after further losses; here it is checked when it is made.
//! A store that reports a damaged file or block as re-replicated claims that each of its records has another replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bucksaw_record::{Id, Millis};
use bucksaw_store::DamagedSegment;

use crate::ledger::{RecordLedger, Violation};
use crate::machine::Machine;
use crate::scenario::Scenario;
use crate::sim_cluster::SimCluster;

/// The checked claims.
#[derive(Debug)]
pub(crate) struct RepairClaims {
    /// Replicas that other faults may have damaged or lost.
    other_faulty_stores: usize,
    checked_losses: BTreeSet<(Id, Id)>,
    /// Damaged segments: machine, name without extension, and the time range of the damage.
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

    /// The violations of claims made since the last call.
    pub(crate) fn check(&mut self, cluster: &SimCluster, ledger: &RecordLedger) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut stored = None;
        for (lost, held) in &cluster.lost_stores {
            for (at, node) in cluster.nodes() {
                let claimed = node.cluster.facts().re_replicated;
                if claimed.is_empty() || self.checked_losses.contains(&(node.id, *lost)) {
                    continue;
                }
                let members = node.cluster.members();
                let is_lost_store = |fingerprint: u64| {
                    members.iter().any(|member| member.facts.node == *lost && member.facts.fingerprint() == fingerprint)
                };
                if claimed.into_iter().any(is_lost_store) {
                    self.checked_losses.insert((node.id, *lost));
                    let stored = stored.get_or_insert_with(|| cluster.replicas());
                    violations.extend(self.check_claim(cluster, ledger, held, at, stored));
                }
            }
        }
        for ((at, stem), held) in &cluster.damaged_segments {
            let Some(node) = cluster.machines.get(*at).and_then(Machine::node) else { continue };
            let is_claimed = |segment: &DamagedSegment| segment.is_re_replicated() && segment.name.starts_with(stem);
            let status = node.store.status();
            let damage = status.quarantined_files.into_iter().chain(status.damaged_segments);
            for segment in damage.filter(is_claimed) {
                if !self.checked_repairs.insert((*at, stem.clone(), segment.low, segment.high)) {
                    continue;
                }
                let stored = stored.get_or_insert_with(|| cluster.replicas());
                // New replicas on faulty stores may be damaged already.
                let wanted = cluster.copies.saturating_sub(self.other_faulty_stores + 1).max(1);
                violations.extend(under_replicated(&ledger.still_required(held.iter()), stored, wanted));
            }
        }
        violations
    }

    fn check_claim(
        &self,
        cluster: &SimCluster,
        ledger: &RecordLedger,
        held: &BTreeSet<Id>,
        at: usize,
        stored: &BTreeMap<Id, (usize, Arc<str>)>,
    ) -> Vec<Violation> {
        let wanted = cluster.copies.min(cluster.stores_up()).saturating_sub(self.other_faulty_stores);
        let own = cluster.stored_ids(at);
        // Records that queues have not committed yet are not part of the claim.
        let pending = cluster.pending_ids();
        let required = ledger.still_required(held.intersection(&own).filter(|id| !pending.contains(id)));
        let required = ledger.without_damaged(required);
        let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
        for id in required.iter().filter(|id| count(id) < wanted).take(1) {
            let holders: Vec<usize> =
                (0..cluster.machines.len()).filter(|at| cluster.stored_ids(*at).contains(id)).collect();
            tracing::debug!(%id, store = at, ?holders, wanted, "a repair claim is false");
        }
        under_replicated(&required, stored, wanted)
    }
}

/// The records on fewer than `wanted` stores.
fn under_replicated(
    required: &BTreeSet<Id>,
    stored: &BTreeMap<Id, (usize, Arc<str>)>,
    wanted: usize,
) -> Vec<Violation> {
    let count = |id: &Id| stored.get(id).map_or(0, |(count, _)| *count);
    let under_replicated = required.iter().map(|id| (*id, count(id))).filter(|(_, count)| *count < wanted);
    under_replicated.map(|(id, count)| Violation::UnderReplicated(id, count)).collect()
}
