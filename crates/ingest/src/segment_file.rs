//! The file of a segment: its name, and what is to become of it. `move_file` carries that out without a lock.
//!
//! A segment's state changes first, under the lock of its contents; that decides what stores are handed and what queries
//! read. The name of the file follows later and only saves a restart work: a file whose name lags behind is recovered as
//! pending, its records are stored again, and answers drop the second copy by id.
//!
//! Invariants:
//! - One thread at a time works on the file of a segment ([`SegmentFile::is_busy`]). A request that finds it busy is left
//!   for that thread, so no thread waits for another one's rename.
//! - Targets are ordered, and a file never returns to an earlier one: a late `pending` does not undo `committed`.
//! - A segment leaves the list of segments only after its file is gone or quarantined.

use std::path::Path;
use std::sync::Arc;

use bucksaw_segment::health::DAMAGED_EXTENSION;

/// What is to become of a file, in the order in which that may happen.
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
    /// The extension of the name; `None` of a file that is removed.
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
    /// The name that the file has, or had before the rename that is under way.
    pub(crate) path: Arc<Path>,
    /// The last target that was begun.
    reached: Option<FileTarget>,
    /// The target that was asked for last and is not begun.
    requested: Option<FileTarget>,
    /// Whether a thread renames or removes the file.
    is_busy: bool,
}

impl SegmentFile {
    pub(crate) fn new(path: Arc<Path>) -> Self {
        Self { path, reached: None, requested: None, is_busy: false }
    }

    /// Takes a request, unless the file is past it. Returns whether the caller has to carry it out.
    pub(crate) fn request(&mut self, target: FileTarget) -> bool {
        if self.reached.is_none_or(|reached| reached <= target) {
            self.requested = self.requested.max(Some(target));
        }
        self.requested.is_some() && !std::mem::replace(&mut self.is_busy, true)
    }

    /// The next step of the thread that is at work; `None` ends its work.
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
