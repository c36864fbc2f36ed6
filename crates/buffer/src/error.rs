//! Why the buffer takes or gives no batch.

use std::io;

/// Why an operation failed. The buffer is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// The batch would exceed [`Config::bytes_max`](crate::Config::bytes_max).
    #[error("the buffer is full: {bytes} bytes wait for an acknowledgement")]
    Full {
        /// The length of all files.
        bytes: u64,
    },
    /// A batch of more than [`BODY_BYTES_MAX`](crate::entry::BODY_BYTES_MAX) bytes.
    #[error("a batch of {0} bytes is too long for the buffer")]
    TooLong(usize),
    /// Reading or writing a file failed.
    #[error("the buffer on disk: {0}")]
    Io(#[from] io::Error),
}
