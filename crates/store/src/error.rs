//! Why an operation of the store failed.

use std::path::{Path, PathBuf};

use bucksaw_env::Shortage;
use bucksaw_record::Id;
use bucksaw_segment::ReadError;

/// Why work on the store was given up. It is done again later.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system failed.
    #[error("cannot {verb} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// A segment cannot be read.
    #[error("cannot read segment {segment}: {source}")]
    Input {
        /// The segment.
        segment: Id,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// What was just written cannot be read back.
    #[error("what was written cannot be read back: {0}")]
    ReadBack(#[source] ReadError),
    /// Another store sent something else than it said.
    #[error("the received file is not segment {segment}")]
    WrongSegment {
        /// The segment.
        segment: Id,
    },
    /// The node is shutting down.
    #[error("stopped")]
    Stopped,
}

impl StoreError {
    pub(crate) fn io<'a>(verb: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }
}

impl StoreError {
    /// Whether it failed for want of room on the disk.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if Shortage::is_disk_full(source))
    }
}
