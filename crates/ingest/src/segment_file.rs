//! The name of a segment's file, and the requests to rename or remove it. `move_file` executes them without a lock.
//!
//! A segment's state changes first, under the lock of its contents; stores and queries go by the state. The name
//! follows later, and only saves work at a restart: a file with an outdated name is recovered as pending, its records
//! are stored again, and answers drop the second copy by id.
//!
//! Invariants:
//! - One thread at a time renames or removes the file of a segment ([`SegmentFile::is_busy`]). It also executes the requests that
//!   others make meanwhile, so no thread waits for another one's rename.
//! - Targets are ordered, and a file never returns to an earlier one: a late `pending` does not undo `committed`.
//! - A segment leaves the list of segments only after its file is gone or quarantined.

use std::path::Path;
use std::sync::Arc;

use bucksaw_segment::health::DAMAGED_EXTENSION;

/// The target of a file, in the order in which targets may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileTarget {
    /// Renamed `pending`: it ends in its seal.
    Pending,
    /// Renamed `committed`: stores have its records.
    Committed,
    /// Renamed `damaged`, and no longer read.
    Quarantined,
    /// Removed.
    Removed,
}

impl FileTarget {
    /// The extension of the new name; `None` for a removal.
    pub(crate) fn extension(self) -> Option<&'static str> {
        match self {
            Self::Pending => Some("pending"),
            Self::Committed => Some("committed"),
            Self::Quarantined => Some(DAMAGED_EXTENSION),
            Self::Removed => None,
        }
    }
}

/// A segment's file on disk; part of the segment's contents.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    /// The name of the file, or its former name during a rename.
    pub(crate) path: Arc<Path>,
    /// The target of the last step.
    reached: Option<FileTarget>,
    /// The requested target, if its step has not begun.
    requested: Option<FileTarget>,
    /// Whether a thread executes requests.
    is_busy: bool,
}

impl SegmentFile {
    pub(crate) fn new(path: Arc<Path>) -> Self {
        Self { path, reached: None, requested: None, is_busy: false }
    }

    /// Adds a request, unless the file is past it. Returns whether the caller must execute it.
    pub(crate) fn request(&mut self, target: FileTarget) -> bool {
        if self.reached.is_none_or(|reached| reached <= target) {
            self.requested = self.requested.max(Some(target));
        }
        self.requested.is_some() && !std::mem::replace(&mut self.is_busy, true)
    }

    /// The next step of the thread that executes requests; `None` when it has finished.
    pub(crate) fn next_step(&mut self) -> Option<(FileTarget, Arc<Path>)> {
        match self.requested.take() {
            Some(target) => {
                self.reached = Some(target);
                Some((target, Arc::clone(&self.path)))
            }
            None => {
                self.is_busy = false;
                None
            }
        }
    }
}
