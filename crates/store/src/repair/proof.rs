//! The proof that all records of a quarantined file, or of damaged blocks, are re-replicated.
//!
//! The records of a damaged file or block are unknown. But each of them was replicated to as many stores as the replication
//! factor. So if fewer stores than that have damage in its time, at least one store can still read it. The repair pass of
//! that store finds that this store does not hold the record, and replicates it. Therefore damage is re-replicated when
//!
//! - each known store, this one included, has begun a pass after the damage was known, and completed it without
//!   under-replicated records (`store/repair-pass`), and
//! - fewer stores than the replication factor, this one included, have damage in that time, and
//! - none of them has removed records of that time by retention by size: repair does not look for these.
//!
//! A pass that was running when a block was found damaged may have counted the block as a replica, so it proves nothing.
//!
//! A lost store without a pass may have had the only other replica. Then the proof waits until that store returns and
//! completes a pass, also if it is forgotten meanwhile: the damage file keeps the stores ([`super::damage_file`]). Later losses do
//! not invalidate a proof, because the records then had all their replicas outside of the damage.

use std::collections::{BTreeMap, BTreeSet};

use bucksaw_record::Id;
use serde::{Deserialize, Serialize};

use super::pass_status::PassStatusReply;

/// The proof for one damaged file, or for the damaged blocks of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    witnesses: BTreeMap<Id, Witness>,
    pub(crate) is_proven: bool,
}

/// A store that may have had another replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Witness {
    /// The process of that store, and the passes it had begun when it was first asked. Later passes count. Not persisted,
    /// because it belongs to a running process.
    #[serde(skip)]
    baseline: Option<(u64, u64)>,
    has_passed: bool,
    is_damaged: bool,
}

/// A witness in a damage file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WitnessRecord {
    node: Id,
    #[serde(flatten)]
    witness: Witness,
}

impl Proof {
    pub(crate) fn proven() -> Self {
        Self { is_proven: true, ..Self::default() }
    }

    pub(crate) fn from_records(stores: Vec<WitnessRecord>, is_proven: bool) -> Self {
        Self {
            witnesses: stores.into_iter().map(|WitnessRecord { node, witness }| (node, witness)).collect(),
            is_proven,
        }
    }

    pub(crate) fn to_records(&self) -> Vec<WitnessRecord> {
        self.witnesses.iter().map(|(node, witness)| WitnessRecord { node: *node, witness: *witness }).collect()
    }

    /// A new proof with the same stores, because more damage was found after their passes. Forgotten stores remain in it.
    pub(crate) fn reset(&self) -> Self {
        let witness = |(node, witness): (&Id, &Witness)| {
            (*node, Witness { is_damaged: witness.is_damaged, ..Witness::default() })
        };
        Self { witnesses: self.witnesses.iter().map(witness).collect(), is_proven: false }
    }

    pub(crate) fn add_stores(&mut self, stores: &BTreeSet<Id>) {
        for store in stores {
            self.witnesses.entry(*store).or_default();
        }
    }

    /// The process and the pass of a store that the proof waits for; `None` if the store has passed or was not asked yet.
    pub(crate) fn awaited_pass(&self, store: Id) -> Option<(u64, u64)> {
        let witness = self.witnesses.get(&store).filter(|witness| !witness.has_passed)?;
        witness.baseline.map(|(boot, begun)| (boot, begun + 1))
    }

    pub(crate) fn record_status(&mut self, store: Id, status: PassStatusReply) {
        let Some(witness) = self.witnesses.get_mut(&store) else { return };
        witness.is_damaged |= status.damaged;
        match witness.baseline {
            Some((boot, begun)) if boot == status.boot => witness.has_passed |= status.last_clean_pass > begun,
            // The first status of this process.
            _ => witness.baseline = Some((status.boot, status.passes_begun)),
        }
    }

    /// Updates whether the damage of store `own` is re-replicated.
    pub(crate) fn evaluate(&mut self, own: Id, replication_factor: usize) {
        let others = self.witnesses.iter().filter(|(node, _)| **node != own);
        let damaged = 1 + others.filter(|(_, witness)| witness.is_damaged).count();
        self.is_proven = replication_factor > 1
            && damaged < replication_factor
            && self.witnesses.len() >= replication_factor
            && self.witnesses.values().all(|witness| witness.has_passed);
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;

    fn node(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    fn status(begun: u64, clean: u64) -> PassStatusReply {
        PassStatusReply { boot: 7, passes_begun: begun, last_clean_pass: clean, ..PassStatusReply::default() }
    }

    /// A file of store 0, of three.
    fn proof() -> Proof {
        let mut proof = Proof::default();
        proof.add_stores(&(0..3).map(node).collect());
        proof
    }

    fn is_proven(proof: &mut Proof, copies: usize) -> bool {
        proof.evaluate(node(0), copies);
        proof.is_proven
    }

    fn pass(proof: &mut Proof, stores: std::ops::Range<u64>) {
        for store in stores {
            proof.record_status(node(store), status(4, 4));
            proof.record_status(node(store), status(5, 5));
        }
    }

    #[test]
    fn damage_is_re_replicated_after_a_later_pass_of_every_store() {
        let mut proof = proof();
        (0..3).for_each(|store| proof.record_status(node(store), status(4, 4)));
        assert!(!is_proven(&mut proof, 2), "these passes may have begun before");
        assert_eq!(proof.awaited_pass(node(1)), Some((7, 5)));
        (0..2).for_each(|store| proof.record_status(node(store), status(6, 6)));
        proof.record_status(node(2), status(6, 4));
        assert!(!is_proven(&mut proof, 2), "one left under-replicated records");
        proof.record_status(node(2), PassStatusReply { boot: 8, ..status(9, 9) });
        assert!(!is_proven(&mut proof, 2), "it has restarted");
        proof.record_status(node(2), PassStatusReply { boot: 8, ..status(10, 10) });
        assert!(is_proven(&mut proof, 2));
        assert_eq!(proof.awaited_pass(node(2)), None);
        proof.add_stores(&[node(3)].into());
        assert!(!is_proven(&mut proof, 2), "another store has joined");
    }

    #[test]
    fn damage_on_as_many_stores_as_replicas_proves_nothing() {
        let mut proof = proof();
        pass(&mut proof, 0..3);
        proof.record_status(node(1), PassStatusReply { damaged: true, ..status(5, 5) });
        proof.record_status(node(1), status(5, 5));
        assert!(!is_proven(&mut proof, 2), "both may have had the same record");
        assert!(is_proven(&mut proof, 3), "a third store had it too");
    }

    #[test]
    fn a_store_that_evicted_that_time_proves_nothing() {
        let pass = |since_ms: Option<u64>| {
            let mut proof = proof();
            for (begun, store) in [4, 5].into_iter().flat_map(|begun| (0..3).map(move |store| (begun, store))) {
                let answer = serde_json::json!({"boot": 7, "passes_begun": begun, "last_clean_pass": begun, "since_ms": since_ms.unwrap_or(0)});
                let mut answer = answer.as_object().unwrap().clone();
                answer.retain(|name, _| name != "since_ms" || since_ms.is_some());
                let status: PassStatusReply = serde_json::from_value(answer.into()).unwrap();
                proof.record_status(node(store), status.for_damage_from(Millis(1_000)));
            }
            is_proven(&mut proof, 2)
        };
        assert_eq!([Some(0), Some(1_000), Some(1_001), None].map(pass), [true, true, false, false]);
    }

    #[test]
    fn a_single_replica_or_too_few_stores_prove_nothing() {
        let mut proof = proof();
        pass(&mut proof, 0..3);
        assert!(!is_proven(&mut proof, 1) && is_proven(&mut proof, 3));
        let mut alone = Proof::default();
        alone.add_stores(&[node(0)].into());
        pass(&mut alone, 0..1);
        assert!(!is_proven(&mut alone, 2));
    }

    #[test]
    fn a_reset_proof_has_the_same_stores() {
        let mut proof = proof();
        pass(&mut proof, 0..3);
        assert!(is_proven(&mut proof, 2));
        let mut again = proof.reset();
        assert!(!again.is_proven && again.awaited_pass(node(1)).is_none());
        // Store 2 was forgotten and is no longer asked.
        again.add_stores(&(0..2).map(node).collect());
        pass(&mut again, 0..2);
        assert!(!is_proven(&mut again, 2));
        pass(&mut again, 2..3);
        assert!(is_proven(&mut again, 2));
        proof.record_status(node(1), PassStatusReply { damaged: true, ..status(5, 5) });
        let mut again = proof.reset();
        pass(&mut again, 0..3);
        assert!(!is_proven(&mut again, 2), "reported damage is remembered");
    }
}
