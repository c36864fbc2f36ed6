//! Work on the files of `durable` segments for which no acknowledgement waits.
//!
//! A sealed segment is renamed once its seal is synced, and then the directory is synced. When the active segment is half full, the
//! file of the next one is created and its name is synced. The group commit did all that before, so each full segment delayed the
//! acknowledgements of its records, and of those after it, by three more syncs.
//!
//! Invariant: a segment with records that wait for the group commit is not synced here. The kernel reports a failed sync once: if it
//! were reported here, the group commit would acknowledge records whose pages the kernel has dropped.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bucksaw_env::{File, FileCipher, log_limited};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::FileHeader;
use bucksaw_segment::queue::{encode_header, frame_cipher};

use crate::append::Durability;
use crate::halt_reason::HaltReason;
use crate::queue::Queue;
use crate::queue_file::remove_file;

/// A file with a header and no records.
pub(crate) struct EmptySegmentFile {
    pub(crate) id: Id,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    pub(crate) version: u32,
    /// Encrypts its frames, if the node has keys.
    pub(crate) cipher: Option<Arc<dyn FileCipher>>,
    /// Whether its name is durable.
    pub(crate) is_name_synced: bool,
}

impl Queue {
    /// Resolves when [`Self::rotate_files`] has something to do. For one waiter.
    pub async fn wait_rotation(&self) {
        self.durable_slot.wait_rotation().await;
    }

    /// Renames sealed `durable` segments whose records are synced, and creates the file of the next segment if the active one is half
    /// full. Blocks for several syncs.
    pub fn rotate_files(&self) {
        self.rename_synced();
        self.prepare_next();
    }

    fn rename_synced(&self) {
        let mut has_renamed = false;
        for segment in self.durable_slot.take_sealed_and_synced() {
            if segment.contents().has_failed_sync {
                continue;
            }
            if let Err(error) = segment.file.sync() {
                log_limited!(self.log_limits, warn, segment = %segment.id(), %error, "cannot sync the seal of a queue segment: it keeps its name");
                if HaltReason::of(&error) == HaltReason::DiskFull {
                    self.record_write_failure(HaltReason::DiskFull);
                }
                self.metrics.sync_failed.inc();
                segment.contents().has_failed_sync = true;
            }
            // The name states that the file ends in its seal.
            has_renamed |= self.rename_sealed(&segment);
        }
        if has_renamed {
            self.sync_dir();
        }
    }

    fn prepare_next(&self) {
        let slot = &self.durable_slot;
        if !std::mem::take(&mut slot.state().is_next_requested) {
            return;
        }
        let created = self.create_file(Durability::Durable, slot.version.load(Ordering::Relaxed)).and_then(|next| {
            let synced = self.env.fs.sync_dir(&self.dir);
            synced.inspect_err(|_| self.discard(&next))?;
            Ok(EmptySegmentFile { is_name_synced: true, ..next })
        });
        let next = match created {
            Ok(next) => next,
            Err(error) => {
                log_limited!(self.log_limits, warn, dir = %self.dir.display(), %error, "cannot prepare the next queue segment: it is created when it is needed");
                return;
            }
        };
        let unused = {
            let mut state = slot.state();
            // `close` sets this before it takes the file.
            if self.is_closed.load(Ordering::Acquire) { Some(next) } else { state.next_file.replace(next) }
        };
        unused.iter().for_each(|unused| self.discard(unused));
    }

    /// Removes the prepared file: at the end, and while nothing is appended.
    pub(crate) fn discard_next(&self) {
        let next = self.durable_slot.state().next_file.take();
        next.iter().for_each(|next| self.discard(next));
    }

    /// Removes a file without records. If that fails, the next start removes it.
    pub(crate) fn discard(&self, unused: &EmptySegmentFile) {
        let _ = remove_file(&self.env, &unused.path);
    }

    /// Creates the file of a segment.
    pub(crate) fn create_file(&self, durability: Durability, version: u32) -> io::Result<EmptySegmentFile> {
        let id = durability.segment_id(Millis(self.env.clock.unix_ms()), self.env.entropy.next_u64());
        let path = self.dir.join(format!("{id}.active"));
        let file = self.env.fs.create(&path)?;
        let cipher = frame_cipher(&*file, id);
        let header = FileHeader { id, version }.with_encryption(cipher.is_some());
        let created = EmptySegmentFile { id, path, file, version, cipher, is_name_synced: false };
        let written = created.file.append(&[&encode_header(header)]);
        written.inspect_err(|_| self.discard(&created))?;
        Ok(created)
    }
}
