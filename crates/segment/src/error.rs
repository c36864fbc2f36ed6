//! Damaged bytes are a value, not a panic.

use std::io;
use std::path::PathBuf;

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
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Damage at an offset of a file.
    pub(crate) fn damaged(path: &std::path::Path, offset: u64, what: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), damage: Damage { offset, what } }
    }
}
