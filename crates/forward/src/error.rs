//! Errors of the agent and of a connection.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bucksaw_tls::TlsFailure;
use bucksaw_wire::{WireError, WireVersion};

/// Why not all of the input was shipped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// No address is configured.
    #[error("no address to ship to: name at least one as HOST:PORT")]
    NoAddress,
    /// Reading the input failed. What had been read was shipped.
    #[error("cannot read the input: {0}")]
    Input(#[source] io::Error),
    /// The journal cannot be read, for this reason.
    #[error("{0}")]
    Journal(String),
    /// The directory with the buffer and the positions in the files cannot be used.
    #[error("the state directory {}: {reason}", .dir.display())]
    State {
        /// The directory.
        dir: PathBuf,
        /// The reason for people.
        reason: String,
    },
    /// See [`Config::give_up_after`](crate::Config::give_up_after).
    #[error("gave up after {} s without an acknowledgement; {unsent} records not shipped: {reason}", .after.as_secs())]
    GaveUp {
        /// Records without an acknowledgement, some of which may have arrived.
        unsent: u64,
        /// The time without an acknowledgement.
        after: Duration,
        /// The last error.
        reason: String,
    },
    /// The acknowledgements did not arrive in time after the stop.
    #[error("stopped with {unsent} records not shipped: {reason}")]
    Stopped {
        /// Records without an acknowledgement, some of which may have arrived.
        unsent: u64,
        /// The last error.
        reason: String,
    },
}

/// Why a connection failed or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    #[error("no answer within {} s", .0.as_secs())]
    ConnectTimeout(Duration),
    #[error("the node refuses: {0}")]
    Refused(String),
    /// With redirect targets.
    #[error("the node is overloaded and redirects to other nodes")]
    Busy(Vec<String>),
    #[error("the node reports: {0}")]
    NodeFailed(String),
    /// The agent moved to another node.
    #[error("redirected to a less loaded node")]
    Redirected,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the node acknowledged a batch that was not sent")]
    InvalidAck,
    #[error(
        "the node takes frames of at most {max} bytes and a batch has {found}: give the node a larger --max-record-bytes"
    )]
    FrameTooLong { found: usize, max: u32 },
    #[error(
        "the node speaks version {0} of the protocol, which has one set of labels per connection: upgrade the node first"
    )]
    NodeTooOld(WireVersion),
    #[error("batches were dropped that this connection has not sent")]
    BatchesDropped,
    #[error("the node closed the connection")]
    Closed,
    #[error(transparent)]
    Tls(#[from] TlsFailure),
    #[error(transparent)]
    Io(io::Error),
    #[error("nothing was acknowledged for {} s", .0.as_secs())]
    AckTimeout(Duration),
}

impl From<io::Error> for ConnectionError {
    /// With TLS 1.3 a node refuses a client after its handshake, so that reading fails.
    fn from(error: io::Error) -> Self {
        TlsFailure::of(&error).map_or(Self::Io(error), Self::Tls)
    }
}
