//! What is appended, with which promise, and why it may be refused.

use std::fmt;
use std::str::FromStr;

use bucksaw_record::{Id, Labels, Millis};

/// When records count as accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Durability {
    /// When they are written to the file: they outlive the process, not a power cut.
    Fast,
    /// When they are synced: they outlive a power cut. Many are synced at once.
    Durable,
    /// When the store has committed them, on as many nodes as it replicates to.
    Bulk,
}

impl Durability {
    /// The name in commands, URLs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Durable => "durable",
            Self::Bulk => "bulk",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Fast, Self::Durable, Self::Bulk];
        let found = all.into_iter().find(|durability| durability.name() == text);
        found.ok_or_else(|| format!("durability is fast, durable or bulk, not `{text}`"))
    }
}

/// Where records came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// Lines over TCP.
    Tcp,
    /// The framed protocol of our own clients.
    Forward,
    /// HTTP.
    Http,
}

impl Source {
    /// The name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Forward => "forward",
            Self::Http => "http",
        }
    }
}

/// Records of one stream that go into one frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameRecords<'a> {
    /// Where they came in.
    pub source: Source,
    /// The stream.
    pub labels: &'a Labels,
    /// The id of the first; the others have the next sequence numbers.
    pub first_id: Id,
    /// How many; at least 1.
    pub count: u32,
    /// When this node took them.
    pub accepted: Millis,
    /// Which side columns there are, see `segment::Sides`.
    pub layout_bits: u8,
    /// The side columns, encoded.
    pub row_meta: &'a [u8],
    /// The records, each followed by an LF, in any number of parts.
    pub text: &'a [&'a [u8]],
}

impl FrameRecords<'_> {
    /// Bytes of text, the LFs included.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text.iter().map(|part| part.len()).sum()
    }
}

/// Why records were not accepted. Nothing of them is kept then, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The disk is full, or nearly. Comes right by itself when there is room.
    #[error("the disk is full: free some space, or lower --retention-bytes")]
    DiskFull,
    /// Too many segments wait for stores. Comes right by itself when they take some.
    #[error("too many segments wait in the queue: no store takes them, or too slowly")]
    QueueFull,
    /// Too much waits for a sync already. Try again soon.
    #[error("the disk is too slow: too many unsynced records")]
    SyncBacklog,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The key of the batch was used with another body before.
    #[error(
        "this Idempotency-Key was used with another body, other labels or another Content-Type: draw a new key for each batch"
    )]
    KeyReused,
    /// The operating system failed to write or to sync. The records may or may not be found later, once at most.
    #[error("cannot write: {0}")]
    Io(String),
}

impl IngestError {
    /// Whether the same records may be accepted later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::DiskFull | Self::QueueFull | Self::SyncBacklog)
    }
}
