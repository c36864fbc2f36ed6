//! Damage files: the damaged blocks of a segment and the proof so far, kept beside the damaged file over restarts.
//!
//! ```text
//!   X.seg                     X.blocks.proof          its damaged blocks
//!   X.damaged                 X.damaged.proof         the quarantined file
//!   X.saved.damaged           X.saved.damaged.proof
//! ```
//! A segment has one proof for all its damaged blocks that are not re-replicated. When another block is found damaged, the
//! proof restarts with the same stores: a store that was forgotten since may have had the only other replica of the first
//! blocks. Re-replicated blocks stay so. A segment that is quarantined later starts with the stores of its blocks, for the
//! same reason.
//!
//! Blocks named in a damage file are damaged from the start of the process, so that this store never claims records that it
//! has denied before.
//!
//! A damage file is void if its file has another size, or the replication factor has changed. It is removed after its file.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bucksaw_env::{file_name, lock, read_file, replace};
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use tracing::{info, warn};

use super::damage_state::DamageState;
use super::proof::Proof;
use crate::segment_store::SegmentStore;
use crate::stored_segment::{DamagedSegment, StoredSegment};

/// Extension of the damage file of a segment, instead of `seg`.
pub(crate) const BLOCKS_PROOF_SUFFIX: &str = "blocks.proof";

/// Extension of the damage file of a quarantined file, instead of `damaged`.
pub(crate) const FILE_PROOF_SUFFIX: &str = "damaged.proof";

/// Extensions of drafts of both, which a crash may leave.
pub(crate) const DRAFT_SUFFIXES: [&str; 2] = ["blocks.tmp", "damaged.tmp"];

/// Maximum size of a damage file.
const BYTES_MAX: u64 = 1 << 20;

impl SegmentStore {
    pub(crate) fn proof_of(&self, damaged: &Path) -> Proof {
        let size = self.env.fs.open(damaged).and_then(|file| file.size()).unwrap_or_default();
        let kept = self.read_damage_file(&damaged.with_extension(FILE_PROOF_SUFFIX));
        let kept = kept.and_then(|bytes| DamageState::parse(&bytes, size, self.config.replication_factor));
        kept.map(|kept| kept.proof).unwrap_or_else(|| self.restarted_proof(damaged))
    }

    /// A new proof of a quarantined file, with the stores that were asked about its blocks.
    pub(crate) fn restarted_proof(&self, damaged: &Path) -> Proof {
        let kept = self.read_damage_file(&sibling_path(damaged, BLOCKS_PROOF_SUFFIX));
        kept.and_then(|bytes| DamageState::parse_stores(&bytes)).unwrap_or_default().reset()
    }

    pub(crate) fn restore_damage(&self, segment: &StoredSegment) {
        let path = segment.reader().path().with_extension(BLOCKS_PROOF_SUFFIX);
        let Some(bytes) = self.read_damage_file(&path) else { return };
        if let Some(kept) = DamageState::parse(&bytes, segment.file_bytes(), self.config.replication_factor) {
            segment.restore_damage(kept);
        }
    }

    fn read_damage_file(&self, path: &Path) -> Option<Vec<u8>> {
        read_file(&*self.env.fs, path, BYTES_MAX).unwrap_or_else(|error| {
            warn!(path = %path.display(), %error, "cannot read a damage file: its proof starts again");
            None
        })
    }

    /// Writes the damage file and then applies the proof. Ignored if the damaged blocks have changed since.
    pub(crate) fn persist_damage(&self, damage: &DamagedSegment) {
        let path = self.dir.join(&damage.name);
        let kept = if damage.blocks.is_empty() {
            let kept = DamageState { proof: damage.proof.clone(), ..DamageState::default() };
            self.write_damage_file(&path, &path.with_extension(FILE_PROOF_SUFFIX), &kept).map(|()| {
                let mut files = lock(&self.quarantined_files);
                let same = files.iter_mut().filter(|known| known.name == damage.name);
                same.for_each(|known| known.proof = damage.proof.clone());
            })
        } else {
            let segments = self.segments();
            let segment = segments.iter().find(|segment| segment.reader().path() == path);
            let Some((segment, kept)) = segment.and_then(|segment| Some((segment, segment.damage_with(damage)?)))
            else {
                return;
            };
            self.write_damage_file(&path, &path.with_extension(BLOCKS_PROOF_SUFFIX), &kept)
                .map(|()| segment.apply_proof(damage))
        };
        if let Err(error) = kept {
            warn!(file = damage.name, %error, "cannot write a damage file; retrying");
            return;
        }
        match (damage.is_re_replicated(), damage.blocks.len()) {
            (false, _) => {}
            (true, 0) => info!(
                file = damage.name,
                "the records of a damaged file are re-replicated: answers are complete without it, and it may be deleted"
            ),
            (true, blocks) => info!(
                file = damage.name,
                blocks,
                "the records of a segment's damaged blocks are re-replicated: answers are complete without these blocks"
            ),
        }
        self.update_metrics();
    }

    fn write_damage_file(&self, damaged: &Path, beside: &Path, kept: &DamageState) -> io::Result<()> {
        let fs = &*self.env.fs;
        replace(fs, beside, &[&kept.encode(fs.open(damaged)?.size()?, self.config.replication_factor)])
    }

    /// Removes the damage file of a removed segment, unless the segment was quarantined.
    pub(crate) fn remove_damage_file(&self, segment: &StoredSegment) {
        if segment.damaged_block_count() > 0 {
            self.remove_stale_proof(&segment.reader().path().with_extension(BLOCKS_PROOF_SUFFIX));
        }
    }

    /// Removes a damage file without its file.
    pub(crate) fn remove_stale_proof(&self, proof: &Path) {
        let is_missing = |path: &Path| self.env.fs.open(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let is_stale = if proof.to_string_lossy().ends_with(BLOCKS_PROOF_SUFFIX) {
            // The proof of a quarantined segment starts with it.
            ["seg", DAMAGED_EXTENSION, SAVED_EXTENSION].iter().all(|end| is_missing(&sibling_path(proof, end)))
        } else {
            is_missing(&proof.with_extension(""))
        };
        if is_stale && !is_missing(proof) {
            self.remove_file(proof);
        }
    }
}

/// The path of another file of the same segment.
fn sibling_path(path: &Path, extension: &str) -> PathBuf {
    let name = file_name(path);
    let stem = name.split_once('.').map_or(name.as_str(), |(stem, _)| stem);
    path.with_file_name(format!("{stem}.{extension}"))
}
