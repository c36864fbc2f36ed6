//! That every record of what is damaged is kept elsewhere: of a file that was set aside, or of damaged blocks of a segment.
//!
//! What was in a file whose footer cannot be read is not known, and neither is what was in a block. But of each of its records
//! there were as many copies as promised, on as many stores. So when fewer stores than copies have damage of its time, one copy
//! at least is on a store that can read it. That store walks over it, sees that this one does not hold it, and has it copied.
//! Therefore what is damaged is *made good* when
//!
//! - a pass of each store that is known, this one among them, began after the damage was known, and ended with nothing left
//!   that has too few copies (`store/repair-pass`), and
//! - fewer of them than there are copies told of damage of that time, this one included, and
//! - none of them had let go of records of that time for want of room: these are not missed, so their copies are not restored.
//!
//! A pass that was under way when a block was found damaged may have counted the block as a copy, so it proves nothing.
//!
//! A store that is gone and has not told so may have had the only other copy. Then nothing is made good until that store is
//! back and has walked, also when it is forgotten meanwhile: what the stores told is kept beside the file ([`super::kept`]).
//! What they told stays true: whatever is lost later is lost of records that had all their copies outside of what is damaged.

use std::collections::{BTreeMap, BTreeSet};

use bucksaw_record::Id;
use serde::{Deserialize, Serialize};

use super::pass_status::PassStatusReply;

/// What is known about one damaged file, or about the damaged blocks of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    witnesses: BTreeMap<Id, Witness>,
    is_proven: bool,
}

/// A store that may have had another copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Witness {
    /// The start of that store, and the pass after which one counts; not known before it was asked.
    baseline: Option<(u64, u64)>,
    has_passed: bool,
    is_damaged: bool,
}

/// A store as a file names it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WitnessRecord {
    node: String,
    has_passed: bool,
    is_damaged: bool,
}

impl Proof {
    /// One that holds for ever.
    pub(crate) fn proven() -> Self {
        Self { is_proven: true, ..Self::default() }
    }

    /// Takes back what [`Self::written`] gave; `None` where a store has no id.
    pub(crate) fn from_records(stores: Vec<WitnessRecord>, is_proven: bool) -> Option<Self> {
        let witness = |store: WitnessRecord| {
            let WitnessRecord { node, has_passed, is_damaged } = store;
            Some((node.parse().ok()?, Witness { baseline: None, has_passed, is_damaged }))
        };
        let witnesses = stores.into_iter().map(witness).collect::<Option<_>>()?;
        Some(Self { witnesses, is_proven })
    }

    /// What the stores told. Passes that are waited for are numbered since a start, and are left out.
    pub(crate) fn to_records(&self) -> Vec<WitnessRecord> {
        let store = |(node, witness): (&Id, &Witness)| WitnessRecord {
            node: node.to_string(),
            has_passed: witness.has_passed,
            is_damaged: witness.is_damaged,
        };
        self.witnesses.iter().map(store).collect()
    }

    /// The same stores, none of which has walked: more is damaged than was known when they did. A store that was forgotten
    /// since stays among them.
    pub(crate) fn reset(&self) -> Self {
        let again = |(node, witness): (&Id, &Witness)| {
            (*node, Witness { is_damaged: witness.is_damaged, ..Witness::default() })
        };
        Self { witnesses: self.witnesses.iter().map(again).collect(), is_proven: false }
    }

    /// Whether all its records are kept elsewhere.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// These stores are there, or were.
    pub(crate) fn add_stores(&mut self, stores: &BTreeSet<Id>) {
        for store in stores {
            self.witnesses.entry(*store).or_default();
        }
    }

    /// The pass of a store that is waited for, with its start; `None` when it has walked, or was not asked yet.
    pub(crate) fn awaited_pass(&self, store: Id) -> Option<(u64, u64)> {
        let witness = self.witnesses.get(&store).filter(|witness| !witness.has_passed)?;
        witness.baseline.map(|(boot, begun)| (boot, begun + 1))
    }

    /// Takes in what a store told.
    pub(crate) fn record_status(&mut self, store: Id, told: PassStatusReply) {
        let Some(witness) = self.witnesses.get_mut(&store) else { return };
        witness.is_damaged |= told.damaged;
        match witness.baseline {
            Some((boot, begun)) if boot == told.boot => witness.has_passed |= told.last_clean_pass > begun,
            // It was started anew, or is asked for the first time.
            _ => witness.baseline = Some((told.boot, told.passes_begun)),
        }
    }

    /// Draws the conclusion for the file of one store.
    pub(crate) fn evaluate(&mut self, own: Id, copies: usize) {
        let others = self.witnesses.iter().filter(|(node, _)| **node != own);
        let damaged = 1 + others.filter(|(_, witness)| witness.is_damaged).count();
        self.is_proven = copies > 1
            && damaged < copies
            && self.witnesses.len() >= copies
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

    fn told(begun: u64, clean: u64) -> PassStatusReply {
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
        proof.is_proven()
    }

    fn walk(proof: &mut Proof, stores: std::ops::Range<u64>) {
        for store in stores {
            proof.record_status(node(store), told(4, 4));
            proof.record_status(node(store), told(5, 5));
        }
    }

    #[test]
    fn a_file_is_made_good_when_all_have_walked_since() {
        let mut proof = proof();
        (0..3).for_each(|store| proof.record_status(node(store), told(4, 4)));
        assert!(!is_proven(&mut proof, 2), "these passes may have begun before");
        assert_eq!(proof.awaited_pass(node(1)), Some((7, 5)));
        (0..2).for_each(|store| proof.record_status(node(store), told(6, 6)));
        proof.record_status(node(2), told(6, 4));
        assert!(!is_proven(&mut proof, 2), "one of them left something with too few copies");
        proof.record_status(node(2), PassStatusReply { boot: 8, ..told(9, 9) });
        assert!(!is_proven(&mut proof, 2), "it was started anew");
        proof.record_status(node(2), PassStatusReply { boot: 8, ..told(10, 10) });
        assert!(is_proven(&mut proof, 2));
        assert_eq!(proof.awaited_pass(node(2)), None);
        proof.add_stores(&[node(3)].into());
        assert!(!is_proven(&mut proof, 2), "another one came that holds something");
    }

    #[test]
    fn as_many_damaged_stores_as_copies_prove_nothing() {
        let mut proof = proof();
        walk(&mut proof, 0..3);
        proof.record_status(node(1), PassStatusReply { damaged: true, ..told(5, 5) });
        proof.record_status(node(1), told(5, 5));
        assert!(!is_proven(&mut proof, 2), "what both had may have been the same");
        assert!(is_proven(&mut proof, 3), "a third one had it, too");
    }

    #[test]
    fn a_store_that_let_go_of_that_time_proves_nothing() {
        let walk = |since_ms: Option<u64>| {
            let mut proof = proof();
            for (begun, store) in [4, 5].into_iter().flat_map(|begun| (0..3).map(move |store| (begun, store))) {
                let answer = serde_json::json!({"boot": 7, "passes_begun": begun, "last_clean_pass": begun, "since_ms": since_ms.unwrap_or(0)});
                let mut answer = answer.as_object().unwrap().clone();
                answer.retain(|name, _| name != "since_ms" || since_ms.is_some());
                let told: PassStatusReply = serde_json::from_value(answer.into()).unwrap();
                proof.record_status(node(store), told.for_damage_from(Millis(1_000)));
            }
            is_proven(&mut proof, 2)
        };
        assert_eq!([Some(0), Some(1_000), Some(1_001), None].map(walk), [true, true, false, false]);
    }

    #[test]
    fn one_copy_and_too_few_stores_prove_nothing() {
        let mut proof = proof();
        walk(&mut proof, 0..3);
        assert!(!is_proven(&mut proof, 1) && is_proven(&mut proof, 3));
        let mut alone = Proof::default();
        alone.add_stores(&[node(0)].into());
        walk(&mut alone, 0..1);
        assert!(!is_proven(&mut alone, 2));
    }

    #[test]
    fn a_proof_that_begins_anew_has_the_same_stores() {
        let mut proof = proof();
        walk(&mut proof, 0..3);
        assert!(is_proven(&mut proof, 2));
        let mut again = proof.reset();
        assert!(!again.is_proven() && again.awaited_pass(node(1)).is_none());
        // Store 2 was forgotten, and is not asked any more.
        again.add_stores(&(0..2).map(node).collect());
        walk(&mut again, 0..2);
        assert!(!is_proven(&mut again, 2));
        walk(&mut again, 2..3);
        assert!(is_proven(&mut again, 2));
        proof.record_status(node(1), PassStatusReply { damaged: true, ..told(5, 5) });
        let mut again = proof.reset();
        walk(&mut again, 0..3);
        assert!(!is_proven(&mut again, 2), "what it told of damage stays true");
    }
}
