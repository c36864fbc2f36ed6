//! Why an auth file is not used.

use std::io;

/// Largest file in bytes: about 20,000 tokens.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why an auth file is not used. No message shows a digest or another value that could be a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthFileError {
    /// The file is not there.
    #[error("there is no such file")]
    Missing,
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// It is longer than the limit.
    #[error("it is longer than {FILE_BYTES_MAX} bytes: is it the right file?")]
    TooLong,
    /// Every user of the machine could add credentials.
    #[error("all users of this machine may write to it: remove their permission, as in chmod 600")]
    WritableByAll,
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A line is wrong.
    #[error("line {line}: {message}")]
    Invalid {
        /// The line, counted from 1; that of the header for an entry as a whole.
        line: usize,
        /// What is wrong, and what is expected.
        message: String,
    },
}
