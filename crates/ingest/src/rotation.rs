//! Work on the files of `durable` segments for which no acknowledgement waits.
//!
//! A sealed segment is renamed once its seal is synced, and then the directory is synced. When the active segment is half full, the
//! file of the next one is created and its name is synced. In the group commit, each full segment would delay the acknowledgements of
//! its records, and of those after it, by three more syncs.
//!
//! Invariant: a segment with records that wait for the group commit is not synced here. The kernel reports a failed sync once: if it
//! were reported here, the group commit would acknowledge records whose pages the kernel has dropped.

use std::sync::atomic::Ordering;

use bucksaw_env::log_limited;

use crate::append::Durability;
use crate::empty_segment_file::EmptySegmentFile;
use crate::halt_reason::HaltReason;
use crate::queue::Queue;

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
        let version = slot.version.load(Ordering::Relaxed);
        let created = EmptySegmentFile::create(&self.env, &self.dir, Durability::Durable, version).and_then(|next| {
            // The header first: after a power cut, a name whose header is lost would count as damage.
            let synced = next.file.sync().and_then(|()| self.env.fs.sync_dir(&self.dir));
            synced.inspect_err(|_| next.remove(&self.env))?;
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
        unused.iter().for_each(|unused| unused.remove(&self.env));
    }

    /// Removes the prepared file: at the end, and while nothing is appended.
    pub(crate) fn discard_next(&self) {
        let next = self.durable_slot.state().next_file.take();
        next.iter().for_each(|next| next.remove(&self.env));
    }
}
