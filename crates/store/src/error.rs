//! Why an operation of the store failed.

use std::path::{Path, PathBuf};

use bucksaw_env::Shortage;
use bucksaw_record::Id;
use bucksaw_segment::ReadError;

/// Why an operation of the store failed. A later attempt may succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system reported an error.
    #[error("cannot {verb} {path}: {source}", path = path.display())]
    Io {
        /// The operation.
        verb: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error.
        #[source]
        source: std::io::Error,
    },
    /// A segment cannot be read.
    #[error("cannot read segment {segment}: {source}")]
    Input {
        /// The segment.
        segment: Id,
        /// The cause.
        #[source]
        source: ReadError,
    },
    /// A file that was just written cannot be read back.
    #[error("a written file cannot be read back: {0}")]
    ReadBack(#[source] ReadError),
    /// Another store sent another segment than it announced.
    #[error("the received file is not segment {segment}")]
    WrongSegment {
        /// The segment.
        segment: Id,
    },
    /// The database of the store failed or cannot be reached.
    #[error("{0}")]
    Database(String),
    /// The node is shutting down.
    #[error("stopped")]
    Stopped,
}

impl StoreError {
    pub(crate) fn io<'a>(verb: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }

    pub(crate) fn input(segment: Id) -> impl FnOnce(ReadError) -> Self {
        move |source| Self::Input { segment, source }
    }

    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if Shortage::is_disk_full(source))
    }
}
