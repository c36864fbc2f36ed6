//! What is kept beside a damaged file, so that a restart remembers it: which blocks are damaged, and what other stores told.
//!
//! ```text
//!   X.seg                     X.blocks.proof          its blocks that were found damaged
//!   X.damaged                 X.damaged.proof         the file that was set aside
//!   X.saved.damaged           X.saved.damaged.proof
//! ```
//! Of a segment, the stores are asked for all blocks that were not made good together. When another block is found damaged
//! they are asked anew for all of these, by the same names: a store that was forgotten since may have had the only other copy
//! of what was in the first ones. Blocks that were made good stay so. For the same reason a segment that is set aside later
//! begins with the stores that were asked for its blocks.
//!
//! Blocks that are named here count as damaged from the start on, so that this store never holds what it told others that it
//! does not.
//!
//! It is void when the file has another size, or the number of copies is another. It goes when the file has gone.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bucksaw_env::replace;
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::proof::{Proof, WitnessRecord};
use crate::segment_store::{SegmentStore, lock};
use crate::stored_segment::{DamagedSegment, StoredSegment};

/// How the name of a proof ends, in place of a segment's `seg`.
pub(crate) const BLOCKS_PROOF_SUFFIX: &str = "blocks.proof";

/// The same in place of the `damaged` of a file that was set aside.
pub(crate) const FILE_PROOF_SUFFIX: &str = "damaged.proof";

/// How drafts of both end, which a crash may leave.
pub(crate) const DRAFT_SUFFIXES: [&str; 2] = ["blocks.tmp", "damaged.tmp"];

/// The format of the file, and the only one that is read.
const FORMAT: u32 = 1;

/// More than such a file has.
const BYTES_MAX: u64 = 1 << 20;

/// What is known about a damaged file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageState {
    /// Of the whole file, or of `blocks`.
    pub(crate) proof: Proof,
    /// Damaged blocks that were not made good; none of a file that was set aside.
    pub(crate) blocks: BTreeSet<usize>,
    /// Those that were.
    pub(crate) re_replicated: BTreeSet<usize>,
}

#[derive(Serialize, Deserialize)]
struct DamageFile {
    format: u32,
    file_bytes: u64,
    copies: usize,
    is_good: bool,
    stores: Vec<WitnessRecord>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    blocks: BTreeSet<usize>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    blocks_made_good: BTreeSet<usize>,
}

impl DamageState {
    /// Reads what was kept beside a file of this size; `None` when that says nothing any more.
    pub(crate) fn parse(bytes: &[u8], file_bytes: u64, copies: usize) -> Option<Self> {
        let written: DamageFile = serde_json::from_slice(bytes).ok()?;
        if (written.format, written.file_bytes, written.copies) != (FORMAT, file_bytes, copies) {
            return None;
        }
        let DamageFile { stores, is_good, blocks, blocks_made_good, .. } = written;
        let made_good = blocks_made_good.difference(&blocks).copied().collect();
        Some(Self {
            proof: Proof::from_records(stores, is_good && blocks.is_empty())?,
            blocks,
            re_replicated: made_good,
        })
    }

    /// What is kept beside the file.
    pub(crate) fn encode(&self, file_bytes: u64, copies: usize) -> Vec<u8> {
        let written = DamageFile {
            format: FORMAT,
            file_bytes,
            copies,
            is_good: self.proof.is_proven(),
            stores: self.proof.to_records(),
            blocks: self.blocks.clone(),
            blocks_made_good: self.re_replicated.clone(),
        };
        // Writing to memory cannot fail.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// How many blocks are damaged.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() + self.re_replicated.len()
    }

    /// Whether a block is known to be damaged.
    pub(crate) fn contains(&self, block: usize) -> bool {
        self.blocks.contains(&block) || self.re_replicated.contains(&block)
    }

    /// Takes note of a damaged block. Says whether that is news.
    pub(crate) fn insert(&mut self, block: usize) -> bool {
        let is_new = !self.contains(block) && self.blocks.insert(block);
        if is_new {
            self.proof = self.proof.reset();
        }
        is_new
    }

    /// Takes in what is known now of some blocks, unless others have been found damaged meanwhile. Says whether it did.
    pub(crate) fn apply_proof(&mut self, blocks: &BTreeSet<usize>, proof: &Proof) -> bool {
        if *blocks != self.blocks {
            return false;
        }
        if proof.is_proven() {
            self.re_replicated.append(&mut self.blocks);
            self.proof = Proof::default();
        } else {
            self.proof = proof.clone();
        }
        true
    }

    /// Forgets blocks that are sound. What was proven of more blocks is proven of those that are left.
    pub(crate) fn retain(&mut self, is_damaged: impl Fn(usize) -> bool) {
        self.blocks.retain(|block| is_damaged(*block));
        self.re_replicated.retain(|block| is_damaged(*block));
    }
}

impl SegmentStore {
    /// What was kept beside a file that was set aside.
    pub(crate) fn proof_of(&self, damaged: &Path) -> Proof {
        let size = self.env.fs.open(damaged).and_then(|file| file.size()).unwrap_or_default();
        let kept = self.read_damage_file(&damaged.with_extension(FILE_PROOF_SUFFIX));
        let kept = kept.and_then(|bytes| DamageState::parse(&bytes, size, self.config.replication_factor));
        kept.map(|kept| kept.proof).unwrap_or_else(|| self.restarted_proof(damaged))
    }

    /// A proof that begins with the stores that were asked for blocks of a file, before it was set aside.
    pub(crate) fn restarted_proof(&self, damaged: &Path) -> Proof {
        let kept = self.read_damage_file(&sibling_path(damaged, BLOCKS_PROOF_SUFFIX));
        let written = kept.and_then(|bytes| serde_json::from_slice::<DamageFile>(&bytes).ok());
        let stores = written.and_then(|written| Proof::from_records(written.stores, false));
        stores.unwrap_or_default().reset()
    }

    /// Has a segment remember which of its blocks are damaged.
    pub(crate) fn restore_damage(&self, segment: &StoredSegment) {
        let path = segment.reader().path().with_extension(BLOCKS_PROOF_SUFFIX);
        let Some(bytes) = self.read_damage_file(&path) else { return };
        if let Some(kept) = DamageState::parse(&bytes, segment.file_bytes(), self.config.replication_factor) {
            segment.restore_damage(kept);
        }
    }

    fn read_damage_file(&self, path: &Path) -> Option<Vec<u8>> {
        let read = || -> io::Result<Vec<u8>> {
            let file = self.env.fs.open(path)?;
            let mut bytes = vec![0; file.size()?.min(BYTES_MAX) as usize];
            file.read_exact_at(0, &mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                warn!(path = %path.display(), %error, "what other stores told of a damaged file cannot be read: they are asked again");
                None
            }
        }
    }

    /// Takes note of what is known about something damaged, first beside it. Where more blocks have been found damaged
    /// meanwhile it is of no use.
    pub(crate) fn persist_damage(&self, broken: &DamagedSegment) {
        let path = self.dir.join(&broken.name);
        let kept = if broken.blocks.is_empty() {
            let kept = DamageState { proof: broken.proof.clone(), ..DamageState::default() };
            self.write_damage_file(&path, &path.with_extension(FILE_PROOF_SUFFIX), &kept).map(|()| {
                let mut set_aside = lock(&self.quarantined_files);
                let same = set_aside.iter_mut().filter(|known| known.name == broken.name);
                same.for_each(|known| known.proof = broken.proof.clone());
            })
        } else {
            let segments = self.segments();
            let segment = segments.iter().find(|segment| segment.reader().path() == path);
            let Some((segment, kept)) = segment.and_then(|segment| Some((segment, segment.damage_with(broken)?)))
            else {
                return;
            };
            self.write_damage_file(&path, &path.with_extension(BLOCKS_PROOF_SUFFIX), &kept)
                .map(|()| segment.apply_proof(broken))
        };
        if let Err(error) = kept {
            warn!(file = broken.name, %error, "what other stores told of a damaged file cannot be written: it is tried again");
            return;
        }
        match (broken.is_re_replicated(), broken.blocks.len()) {
            (false, _) => {}
            (true, 0) => info!(
                file = broken.name,
                "every record of a damaged file is kept by other stores: answers are whole without it, and it may be deleted"
            ),
            (true, blocks) => info!(
                file = broken.name,
                blocks,
                "every record of a segment's damaged blocks is kept by other stores: answers are whole without these blocks"
            ),
        }
        self.update_metrics();
    }

    fn write_damage_file(&self, damaged: &Path, beside: &Path, kept: &DamageState) -> io::Result<()> {
        let fs = &*self.env.fs;
        replace(fs, beside, &[&kept.encode(fs.open(damaged)?.size()?, self.config.replication_factor)])
    }

    /// Removes what is kept beside a segment that has gone, unless it was set aside.
    pub(crate) fn remove_damage_file(&self, segment: &StoredSegment) {
        if segment.damaged_block_count() > 0 {
            self.remove_stale_proof(&segment.reader().path().with_extension(BLOCKS_PROOF_SUFFIX));
        }
    }

    /// Removes a proof whose file is not there any more.
    pub(crate) fn remove_stale_proof(&self, proof: &Path) {
        let is_gone = |path: &Path| self.env.fs.open(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let is_stale = if proof.to_string_lossy().ends_with(BLOCKS_PROOF_SUFFIX) {
            // A segment that was set aside begins with it.
            ["seg", DAMAGED_EXTENSION, SAVED_EXTENSION].iter().all(|end| is_gone(&sibling_path(proof, end)))
        } else {
            is_gone(&proof.with_extension(""))
        };
        if is_stale && !is_gone(proof) {
            self.discard(proof);
        }
    }
}

/// The file beside another, of the same segment, with this end.
fn sibling_path(path: &Path, end: &str) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split_once('.').map_or(name.as_str(), |(stem, _)| stem);
    path.with_file_name(format!("{stem}.{end}"))
}

#[cfg(test)]
mod tests {
    use super::super::pass_status::PassStatusReply;
    use super::*;
    use bucksaw_fixtures::with_unknown_fields;
    use bucksaw_record::Id;

    fn node(number: u128) -> Id {
        Id::from_bits(number)
    }

    fn walk(proof: &mut Proof, stores: &[u128]) {
        for (begun, store) in [4, 5].into_iter().flat_map(|begun| stores.iter().map(move |store| (begun, *store))) {
            proof.record_status(
                node(store),
                PassStatusReply { boot: 7, begun, clean: begun, ..PassStatusReply::default() },
            );
        }
        proof.evaluate(node(0), 2);
    }

    /// A proof of three stores, of which these have walked.
    fn proof(walked: &[u128]) -> Proof {
        let mut proof = Proof::default();
        proof.add_stores(&(0..3).map(node).collect());
        walk(&mut proof, walked);
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
        // What waits for a pass is not kept.
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
        walk(&mut read.proof, &[]);
        assert!(!read.proof.is_proven(), "a store that was forgotten since has not told it");
        walk(&mut read.proof, &[2]);
        assert!(read.proof.is_proven());
        assert!(parse(&read, 100, 2).unwrap().proof.is_proven());
        assert_eq!((parse(&read, 101, 2), parse(&read, 100, 3), DamageState::parse(b"{", 100, 2)), (None, None, None));
    }

    #[test]
    fn blocks_are_kept_as_they_are() {
        let kept = DamageState { proof: proof(&[0, 1]), blocks: [3, 70_000].into(), re_replicated: [1].into() };
        assert_eq!(parse(&kept, 100, 2).unwrap().encode(100, 2), kept.encode(100, 2));
        let text = String::from_utf8(DamageState { proof: proof(&[0, 1, 2]), ..kept }.encode(100, 2)).unwrap();
        let read = DamageState::parse(text.replace("[1]", "[1,3]").as_bytes(), 100, 2).unwrap();
        assert!(!read.proof.is_proven(), "blocks that were made good are named so");
        assert_eq!(
            (read.blocks, read.re_replicated),
            ([3, 70_000].into(), [1].into()),
            "what is in doubt is not made good"
        );
    }

    #[test]
    fn a_block_that_is_found_damaged_later_is_proven_anew() {
        let mut kept = DamageState::default();
        assert!(kept.insert(4) && !kept.insert(4));
        kept.proof = proof(&[0, 1]);
        let (first, old) = (kept.blocks.clone(), proof(&[0, 1, 2]));
        assert!(old.is_proven() && kept.insert(9));
        assert!(!kept.apply_proof(&first, &old), "it says nothing of the second");
        assert_eq!((kept.blocks.len(), kept.re_replicated.len()), (2, 0));
        let mut new = kept.proof.clone();
        walk(&mut new, &[2]);
        assert!(!new.is_proven(), "the others walked before the second was found");
        let mut new = kept.proof.clone();
        walk(&mut new, &[0, 1]);
        assert!(!new.is_proven(), "the third store may have had the other copy of the first");
        walk(&mut new, &[2]);
        assert!(kept.apply_proof(&[4, 9].into(), &new));
        assert_eq!((kept.blocks.len(), &kept.re_replicated), (0, &[4, 9].into()));
        // What was made good stays so, and is not asked for again.
        assert!(!kept.insert(9) && kept.insert(2));
        assert_eq!((&kept.blocks, kept.len(), &kept.proof), (&[2].into(), 3, &Proof::default()));
        kept.retain(|block| block != 4);
        assert!(!kept.contains(4) && kept.contains(9) && kept.contains(2));
    }
}
