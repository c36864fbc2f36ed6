//! That every record of a damaged file is kept elsewhere.
//!
//! What was in a file whose footer cannot be read is not known. But of each of its records there were as many copies as
//! promised, on as many stores. So when fewer stores than copies have damage of its time, one copy at least is on a store that
//! can read it. That store walks over it, sees that this one does not hold it, and has it copied. Therefore the file is *made
//! good* when
//!
//! - a pass of each store that is known, this one among them, began after the file was set aside, and ended with nothing left
//!   that has too few copies (`store/walked`), and
//! - fewer of them than there are copies told of damage of that time, this one included.
//!
//! A store that is gone and has not told so may have had the only other copy. Then the file is not made good until that store is
//! back and has walked, also when it is forgotten meanwhile: what the stores told is kept beside the file (`….damaged.proof`).
//! What they told stays true: whatever is lost later is lost of records that had all their copies outside of the file. The proof is
//! void when the file has another size, or the number of copies is another.

use std::collections::{BTreeMap, BTreeSet};

use bucksaw_record::Id;
use serde::{Deserialize, Serialize};

use super::walked::Told;

/// How the name of the file goes on, after that of the segment.
pub(crate) const PROOF: &str = "damaged.proof";

/// The format of the file, and the only one that is read.
const FORMAT: u32 = 1;

/// What is known about one damaged file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    witnesses: BTreeMap<Id, Witness>,
    is_good: bool,
}

/// A store that may have had another copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Witness {
    /// The start of that store, and the pass after which one counts; not known before it was asked.
    ticket: Option<(u64, u64)>,
    has_walked: bool,
    is_damaged: bool,
}

#[derive(Serialize, Deserialize)]
struct Written {
    format: u32,
    file_bytes: u64,
    copies: usize,
    is_good: bool,
    stores: Vec<WrittenStore>,
}

#[derive(Serialize, Deserialize)]
struct WrittenStore {
    node: String,
    has_walked: bool,
    is_damaged: bool,
}

impl Proof {
    /// Reads what was kept beside a file of this size; `None` when that proves nothing any more.
    pub(crate) fn parse(bytes: &[u8], file_bytes: u64, copies: usize) -> Option<Self> {
        let written: Written = serde_json::from_slice(bytes).ok()?;
        if (written.format, written.file_bytes, written.copies) != (FORMAT, file_bytes, copies) {
            return None;
        }
        let witness = |store: WrittenStore| {
            let WrittenStore { node, has_walked, is_damaged } = store;
            Some((node.parse().ok()?, Witness { ticket: None, has_walked, is_damaged }))
        };
        let witnesses = written.stores.into_iter().map(witness).collect::<Option<_>>()?;
        Some(Self { witnesses, is_good: written.is_good })
    }

    /// What is kept beside the file.
    pub(crate) fn encode(&self, file_bytes: u64, copies: usize) -> Vec<u8> {
        let store = |(node, witness): (&Id, &Witness)| WrittenStore {
            node: node.to_string(),
            has_walked: witness.has_walked,
            is_damaged: witness.is_damaged,
        };
        let stores = self.witnesses.iter().map(store).collect();
        let written = Written { format: FORMAT, file_bytes, copies, is_good: self.is_good, stores };
        // Writing to memory cannot fail.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// Whether all its records are kept elsewhere.
    pub(crate) fn is_good(&self) -> bool {
        self.is_good
    }

    /// These stores are there, or were.
    pub(crate) fn meet(&mut self, stores: &BTreeSet<Id>) {
        for store in stores {
            self.witnesses.entry(*store).or_default();
        }
    }

    /// The pass of a store that is waited for, with its start; `None` when it has walked, or was not asked yet.
    pub(crate) fn wanted(&self, store: Id) -> Option<(u64, u64)> {
        let witness = self.witnesses.get(&store).filter(|witness| !witness.has_walked)?;
        witness.ticket.map(|(boot, begun)| (boot, begun + 1))
    }

    /// Takes in what a store told.
    pub(crate) fn hear(&mut self, store: Id, told: Told) {
        let Some(witness) = self.witnesses.get_mut(&store) else { return };
        witness.is_damaged |= told.damaged;
        match witness.ticket {
            Some((boot, begun)) if boot == told.boot => witness.has_walked |= told.clean > begun,
            // It was started anew, or is asked for the first time.
            _ => witness.ticket = Some((told.boot, told.begun)),
        }
    }

    /// Draws the conclusion for the file of one store.
    pub(crate) fn conclude(&mut self, own: Id, copies: usize) {
        let others = self.witnesses.iter().filter(|(node, _)| **node != own);
        let damaged = 1 + others.filter(|(_, witness)| witness.is_damaged).count();
        self.is_good = copies > 1
            && damaged < copies
            && self.witnesses.len() >= copies
            && self.witnesses.values().all(|witness| witness.has_walked);
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};
    use bucksaw_versions::{Kept, later};

    use super::*;

    fn node(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    #[test]
    fn it_is_kept_as_each_version_kept_it() {
        let files = Kept::new(env!("CARGO_MANIFEST_DIR"), FORMAT);
        let mut kept = proof();
        kept.hear(node(1), told(3, 0));
        kept.hear(node(1), told(4, 4));
        kept.hear(node(2), Told { damaged: true, ..told(5, 0) });
        files.check("proof", &kept.encode(70_000, 2));
        // What waits for a pass is not kept.
        kept.witnesses.values_mut().for_each(|witness| witness.ticket = None);
        for bytes in files.all("proof") {
            assert_eq!(Proof::parse(&bytes, 70_000, 2), Some(kept.clone()));
            for seed in 0..20 {
                assert_eq!(Proof::parse(&later(&bytes, seed).unwrap(), 70_000, 2), Some(kept.clone()));
            }
        }
    }

    fn told(begun: u64, clean: u64) -> Told {
        Told { boot: 7, begun, clean, damaged: false }
    }

    /// A file of store 0, of three.
    fn proof() -> Proof {
        let mut proof = Proof::default();
        proof.meet(&(0..3).map(node).collect());
        proof
    }

    fn is_good(proof: &mut Proof, copies: usize) -> bool {
        proof.conclude(node(0), copies);
        proof.is_good()
    }

    fn walk(proof: &mut Proof, stores: std::ops::Range<u64>) {
        for store in stores {
            proof.hear(node(store), told(4, 4));
            proof.hear(node(store), told(5, 5));
        }
    }

    #[test]
    fn a_file_is_made_good_when_all_have_walked_since() {
        let mut proof = proof();
        (0..3).for_each(|store| proof.hear(node(store), told(4, 4)));
        assert!(!is_good(&mut proof, 2), "these passes may have begun before");
        assert_eq!(proof.wanted(node(1)), Some((7, 5)));
        (0..2).for_each(|store| proof.hear(node(store), told(6, 6)));
        proof.hear(node(2), told(6, 4));
        assert!(!is_good(&mut proof, 2), "one of them left something with too few copies");
        proof.hear(node(2), Told { boot: 8, ..told(9, 9) });
        assert!(!is_good(&mut proof, 2), "it was started anew");
        proof.hear(node(2), Told { boot: 8, ..told(10, 10) });
        assert!(is_good(&mut proof, 2));
        assert_eq!(proof.wanted(node(2)), None);
        proof.meet(&[node(3)].into());
        assert!(!is_good(&mut proof, 2), "another one came that holds something");
    }

    #[test]
    fn as_many_damaged_stores_as_copies_prove_nothing() {
        let mut proof = proof();
        walk(&mut proof, 0..3);
        proof.hear(node(1), Told { damaged: true, ..told(5, 5) });
        proof.hear(node(1), told(5, 5));
        assert!(!is_good(&mut proof, 2), "what both had may have been the same");
        assert!(is_good(&mut proof, 3), "a third one had it, too");
    }

    #[test]
    fn one_copy_and_too_few_stores_prove_nothing() {
        let mut proof = proof();
        walk(&mut proof, 0..3);
        assert!(!is_good(&mut proof, 1) && is_good(&mut proof, 3));
        let mut alone = Proof::default();
        alone.meet(&[node(0)].into());
        walk(&mut alone, 0..1);
        assert!(!is_good(&mut alone, 2));
    }

    #[test]
    fn what_was_told_is_kept_for_this_file_and_these_copies() {
        let mut proof = proof();
        walk(&mut proof, 0..2);
        let kept = |proof: &Proof, bytes, copies| Proof::parse(&proof.encode(100, 2), bytes, copies);
        let mut read = kept(&proof, 100, 2).unwrap();
        assert!(!is_good(&mut read, 2), "a store that was forgotten since has not told it");
        walk(&mut read, 2..3);
        assert!(is_good(&mut read, 2));
        assert!(kept(&read, 100, 2).unwrap().is_good());
        assert_eq!((kept(&read, 101, 2), kept(&read, 100, 3), Proof::parse(b"{", 100, 2)), (None, None, None));
    }
}
