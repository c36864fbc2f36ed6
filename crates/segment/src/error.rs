//! Errors of reading and opening segments.

use std::io;
use std::path::{Path, PathBuf};

use bucksaw_env::KeyId;

/// Damaged bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged at byte {offset}: {what}")]
pub struct Damage {
    /// Offset in the file.
    pub offset: u64,
    /// What is damaged.
    pub what: &'static str,
}

/// Why a segment or a part of it could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system reported an error.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The file is damaged.
    #[error("{path}: {damage}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        damage: Damage,
    },
    /// The file was written by a newer version of the program.
    #[error("{path} has format {found}; this program knows formats up to {known}: use the newer program", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
    /// The file is encrypted, and its key is unknown. It is not damaged.
    #[error("{path} is encrypted with key {key}, which is not among the encryption keys", path = path.display())]
    MissingKey {
        /// The file.
        path: PathBuf,
        /// Its key.
        key: KeyId,
    },
}

impl ReadError {
    /// Wraps an error of the operating system.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// An error for damage at an offset of a file.
    pub fn damaged(path: &Path, offset: u64, what: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), damage: Damage { offset, what } }
    }
}

/// Why a queue or a store cannot be opened. Damage is no reason: damaged files are quarantined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system reported an error.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// A file has a newer format version.
    #[error(transparent)]
    NewerVersion(ReadError),
    /// Files are encrypted, and their keys are unknown.
    #[error(
        "{unreadable}: give its key with --encryption-key-file or --encryption-key-command; if the key is lost, move the file out of the \
         data directory"
    )]
    MissingKey {
        /// The first such file.
        unreadable: ReadError,
    },
    /// The index of the segments exceeds its memory.
    #[error("the index of the segments in {dir} takes {needed} bytes of memory, and may take {max}", dir = dir.display())]
    Memory {
        /// The directory.
        dir: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Maximum bytes.
        max: u64,
    },
}

impl OpenError {
    /// Wraps an error of the operating system on a directory or file.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
