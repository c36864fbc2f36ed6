//! Why the API server gave no pods.

use std::io;
use std::path::PathBuf;

use crate::pod_metadata::InvalidObject;

/// Why a connection to the API server ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiServerError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("{}: {reason}", path.display())]
    Credentials { path: PathBuf, reason: String },
    #[error("TLS: {0}")]
    Tls(String),
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    #[error("{0} took too long")]
    Timeout(&'static str),
    /// The server refuses, by the status of its answer or in a stream of events.
    #[error("the server answers {code}: {message}")]
    Status { code: u16, message: String, retry_after: Option<u64> },
    /// The version from which changes were requested is too old.
    #[error("the server has forgotten the changes since the last one: the pods are listed again")]
    Expired,
    #[error("a page of the list is longer than {} MiB, or all pages than four times as much", crate::LIST_BYTES_MAX >> 20)]
    ListTooLong,
    #[error(transparent)]
    Invalid(#[from] InvalidObject),
}
