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

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bucksaw_env::replace;
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use tracing::{info, warn};

use super::damage_state::DamageState;
use super::proof::Proof;
use crate::lock::lock;
use crate::segment_store::SegmentStore;
use crate::stored_segment::{DamagedSegment, StoredSegment};

/// How the name of a proof ends, in place of a segment's `seg`.
pub(crate) const BLOCKS_PROOF_SUFFIX: &str = "blocks.proof";

/// The same in place of the `damaged` of a file that was set aside.
pub(crate) const FILE_PROOF_SUFFIX: &str = "damaged.proof";

/// How drafts of both end, which a crash may leave.
pub(crate) const DRAFT_SUFFIXES: [&str; 2] = ["blocks.tmp", "damaged.tmp"];

/// More than such a file has.
const BYTES_MAX: u64 = 1 << 20;

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
        kept.and_then(|bytes| DamageState::parse_stores(&bytes)).unwrap_or_default().reset()
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
