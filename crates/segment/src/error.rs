//! Damaged bytes are a value, not a panic.

use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at byte {offset}: {what}")]
pub struct Damage {
    /// Where in the file.
    pub offset: u64,
    /// What was found wrong.
    pub what: &'static str,
}

/// Why a segment, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system failed.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The bytes are wrong.
    #[error("{path}: {damage}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        damage: Damage,
    },
    /// The file was written by a newer version of the program.
    #[error("{path} has format {found}; this program knows formats up to {known}: use the newer program", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The format that the file states.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
}

impl ReadError {
    /// Wraps what the operating system said.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Damage at an offset of a file.
    #[must_use]
    pub fn damaged(path: &Path, offset: u64, what: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), damage: Damage { offset, what } }
    }
}

/// Why a directory of segments, the queue or the store, cannot be opened. Damage is no reason: what is damaged is set aside.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system failed.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A file is of a newer version of the program.
    #[error(transparent)]
    NewerVersion(ReadError),
    /// What is known of the segments takes more memory than it may.
    #[error("the index of the segments in {dir} takes {needed} bytes of memory, and may take {max}", dir = dir.display())]
    Memory {
        /// The directory.
        dir: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that it may take.
        max: u64,
    },
}

impl OpenError {
    /// Wraps what the operating system said of a directory or file.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
