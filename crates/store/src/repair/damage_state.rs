//! What is known about a damaged file: its damaged blocks, and the proof that other stores hold their records.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::proof::{Proof, WitnessRecord};

/// The format of a damage file; others are not read.
const FORMAT: u32 = 1;

/// The damage of a file, with the proof so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageState {
    /// The proof for the whole file, or for `blocks`.
    pub(crate) proof: Proof,
    /// Damaged blocks that are not re-replicated; empty for a quarantined file.
    pub(crate) blocks: BTreeSet<usize>,
    pub(crate) re_replicated: BTreeSet<usize>,
}

#[derive(Serialize, Deserialize)]
struct DamageFile {
    format: u32,
    file_bytes: u64,
    copies: usize,
    is_proven: bool,
    stores: Vec<WitnessRecord>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    blocks: BTreeSet<usize>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    blocks_re_replicated: BTreeSet<usize>,
}

impl DamageState {
    /// Decodes a damage file; `None` if it is invalid for a file of this size and this replication factor.
    pub(crate) fn parse(bytes: &[u8], file_bytes: u64, copies: usize) -> Option<Self> {
        let written: DamageFile = serde_json::from_slice(bytes).ok()?;
        if (written.format, written.file_bytes, written.copies) != (FORMAT, file_bytes, copies) {
            return None;
        }
        let DamageFile { stores, is_proven, blocks, blocks_re_replicated, .. } = written;
        let re_replicated = blocks_re_replicated.difference(&blocks).copied().collect();
        Some(Self { proof: Proof::from_records(stores, is_proven && blocks.is_empty()), blocks, re_replicated })
    }

    /// A proof in which the stores of a file have yet to pass; other contents of the file are ignored.
    pub(crate) fn parse_stores(bytes: &[u8]) -> Option<Proof> {
        let written: DamageFile = serde_json::from_slice(bytes).ok()?;
        Some(Proof::from_records(written.stores, false))
    }

    pub(crate) fn encode(&self, file_bytes: u64, copies: usize) -> Vec<u8> {
        let written = DamageFile {
            format: FORMAT,
            file_bytes,
            copies,
            is_proven: self.proof.is_proven,
            stores: self.proof.to_records(),
            blocks: self.blocks.clone(),
            blocks_re_replicated: self.re_replicated.clone(),
        };
        // Writing to memory cannot fail.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len() + self.re_replicated.len()
    }

    pub(crate) fn contains(&self, block: usize) -> bool {
        self.blocks.contains(&block) || self.re_replicated.contains(&block)
    }

    /// Adds a damaged block; returns whether it is new.
    pub(crate) fn insert(&mut self, block: usize) -> bool {
        let is_new = !self.contains(block) && self.blocks.insert(block);
        if is_new {
            self.proof = self.proof.reset();
        }
        is_new
    }

    /// Applies a proof for `blocks`, unless the damaged blocks are others by now; returns whether it did.
    pub(crate) fn apply_proof(&mut self, blocks: &BTreeSet<usize>, proof: &Proof) -> bool {
        if *blocks != self.blocks {
            return false;
        }
        if proof.is_proven {
            self.re_replicated.append(&mut self.blocks);
            self.proof = Proof::default();
        } else {
            self.proof = proof.clone();
        }
        true
    }

    /// Removes blocks that are intact after all. A proof for more blocks holds for the rest.
    pub(crate) fn retain(&mut self, is_damaged: impl Fn(usize) -> bool) {
        self.blocks.retain(|block| is_damaged(*block));
        self.re_replicated.retain(|block| is_damaged(*block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::pass_status::PassStatusReply;
    use bucksaw_fixtures::with_unknown_fields;
    use bucksaw_record::Id;

    fn node(number: u128) -> Id {
        Id::from_bits(number)
    }

    fn pass(proof: &mut Proof, stores: &[u128]) {
        for (begun, store) in [4, 5].into_iter().flat_map(|begun| stores.iter().map(move |store| (begun, *store))) {
            proof.record_status(
                node(store),
                PassStatusReply { boot: 7, passes_begun: begun, last_clean_pass: begun, ..PassStatusReply::default() },
            );
        }
        proof.evaluate(node(0), 2);
    }

    /// A proof of three stores, of which these have passed.
    fn proof(passed: &[u128]) -> Proof {
        let mut proof = Proof::default();
        proof.add_stores(&(0..3).map(node).collect());
        pass(&mut proof, passed);
        proof
    }

    fn parse(kept: &DamageState, bytes: u64, copies: usize) -> Option<DamageState> {
        DamageState::parse(&kept.encode(100, 2), bytes, copies)
    }

    #[test]
    fn damage_files_of_all_versions_are_read() {
        let files = bucksaw_fixtures::GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), FORMAT);
        let kept = DamageState { proof: proof(&[0, 2]), blocks: [1, 7].into(), re_replicated: [3].into() };
        files.check("proof", &kept.encode(70_000, 2));
        // The baselines of passes are not persisted.
        let kept = parse(&kept, 100, 2);
        for bytes in files.read_all("proof") {
            assert_eq!(DamageState::parse(&bytes, 70_000, 2), kept);
            for seed in 0..20 {
                assert_eq!(DamageState::parse(&with_unknown_fields(&bytes, seed).unwrap(), 70_000, 2), kept);
            }
        }
    }

    #[test]
    fn a_damage_file_is_valid_for_its_file_and_replication_factor() {
        let kept = DamageState { proof: proof(&[0, 1]), ..DamageState::default() };
        let mut read = parse(&kept, 100, 2).unwrap();
        pass(&mut read.proof, &[]);
        assert!(!read.proof.is_proven, "a store that was forgotten since has not passed");
        pass(&mut read.proof, &[2]);
        assert!(read.proof.is_proven);
        assert!(parse(&read, 100, 2).unwrap().proof.is_proven);
        assert_eq!((parse(&read, 101, 2), parse(&read, 100, 3), DamageState::parse(b"{", 100, 2)), (None, None, None));
    }

    #[test]
    fn blocks_round_trip() {
        let kept = DamageState { proof: proof(&[0, 1]), blocks: [3, 70_000].into(), re_replicated: [1].into() };
        assert_eq!(parse(&kept, 100, 2).unwrap().encode(100, 2), kept.encode(100, 2));
        let text = String::from_utf8(DamageState { proof: proof(&[0, 1, 2]), ..kept }.encode(100, 2)).unwrap();
        let read = DamageState::parse(text.replace("[1]", "[1,3]").as_bytes(), 100, 2).unwrap();
        assert!(!read.proof.is_proven, "a proven file has no damaged blocks");
        assert_eq!(
            (read.blocks, read.re_replicated),
            ([3, 70_000].into(), [1].into()),
            "a block in both lists is not re-replicated"
        );
    }

    #[test]
    fn a_block_that_is_found_damaged_later_is_proven_anew() {
        let mut kept = DamageState::default();
        assert!(kept.insert(4) && !kept.insert(4));
        kept.proof = proof(&[0, 1]);
        let (first, old) = (kept.blocks.clone(), proof(&[0, 1, 2]));
        assert!(old.is_proven && kept.insert(9));
        assert!(!kept.apply_proof(&first, &old), "the proof does not cover the second");
        assert_eq!((kept.blocks.len(), kept.re_replicated.len()), (2, 0));
        let mut new = kept.proof.clone();
        pass(&mut new, &[2]);
        assert!(!new.is_proven, "the others passed before the second was found");
        let mut new = kept.proof.clone();
        pass(&mut new, &[0, 1]);
        assert!(!new.is_proven, "the third store may have had the other replica of the first");
        pass(&mut new, &[2]);
        assert!(kept.apply_proof(&[4, 9].into(), &new));
        assert_eq!((kept.blocks.len(), &kept.re_replicated), (0, &[4, 9].into()));
        // A re-replicated block stays so.
        assert!(!kept.insert(9) && kept.insert(2));
        assert_eq!((&kept.blocks, kept.len(), &kept.proof), (&[2].into(), 3, &Proof::default()));
        kept.retain(|block| block != 4);
        assert!(!kept.contains(4) && kept.contains(9) && kept.contains(2));
    }
}
