//! The parameters and errors of an append.

use bucksaw_record::{Id, Labels, Millis, Producer};

/// When records are acknowledged.
///
/// All records of a segment have one durability. Its number is the sequence number of the segment's id, hence part of the file
/// name, and survives any damage to the contents.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, strum::EnumString, strum::IntoStaticStr,
)]
#[strum(serialize_all = "snake_case", parse_err_ty = String, parse_err_fn = unknown_durability)]
pub enum Durability {
    /// Acknowledged when written; survives a crash of the process, not a power cut.
    Fast = 1,
    /// Acknowledged when synced, many at once; survives a power cut.
    Durable = 2,
    /// Acknowledged when as many stores as the replication factor hold them.
    Bulk = 3,
}

impl Durability {
    /// The name in commands, URLs and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The id of a new segment.
    pub(crate) fn segment_id(self, now: Millis, random: u64) -> Id {
        Id::new(now, Producer::random(random), self as u32)
    }

    /// The durability of a segment's records. An unknown number counts as the strictest, `durable`.
    pub(crate) fn of_segment(id: Id) -> Self {
        let known = [Self::Fast, Self::Bulk].into_iter().find(|durability| *durability as u32 == id.sequence());
        known.unwrap_or(Self::Durable)
    }

    /// Whether a file named `pending` must end in its seal. The seals of `durable` segments are synced before the rename.
    pub(crate) fn requires_seal(self, may_have_lost_writes: bool) -> bool {
        self == Self::Durable || !may_have_lost_writes
    }
}

fn unknown_durability(text: &str) -> String {
    format!("durability is fast, durable or bulk, not `{text}`")
}

/// The source of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Source {
    /// Lines over TCP.
    Tcp,
    /// The framed protocol.
    Forward,
    /// HTTP.
    Http,
    /// JSON over HTTP whose members are mapped.
    Json,
    /// Loki's push API.
    Loki,
    /// OpenTelemetry's protocol.
    Otlp,
    /// Elasticsearch's bulk API.
    Elasticsearch,
    /// Splunk's HTTP event collector.
    Splunk,
    /// Graylog's format.
    Gelf,
    /// Datadog's logs API.
    Datadog,
    /// Syslog.
    Syslog,
    /// Fluentd's forward protocol.
    Fluent,
    /// Uploads of systemd's journal.
    Journald,
    /// Bucksaw's own service for gRPC.
    Grpc,
    /// Topics of Kafka.
    Kafka,
    /// What Bucksaw records about itself: its audit trail.
    Audit,
}

impl Source {
    /// The label in metrics.
    pub fn label(self) -> [(&'static str, &'static str); 1] {
        [("source", self.name())]
    }

    /// The value of the label.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Records of one stream for one frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameRecords<'a> {
    /// Their source.
    pub source: Source,
    /// The labels of their stream.
    pub labels: &'a Labels,
    /// The id of the first record; the others have the next sequence numbers.
    pub first_id: Id,
    /// The number of records, at least 1.
    pub count: u32,
    /// The time of their arrival.
    pub accepted: Millis,
    /// The columns of the row metadata; see `segment::RowMeta`.
    pub layout_bits: u8,
    /// The encoded row metadata.
    pub row_meta: &'a [u8],
    /// The text of the records, each followed by an LF, in any number of parts.
    pub text: &'a [&'a [u8]],
}

impl FrameRecords<'_> {
    /// Bytes of text, with the LFs.
    pub fn text_bytes(&self) -> usize {
        self.text.iter().map(|part| part.len()).sum()
    }
}

/// Why records were not accepted. No record is kept, unless the variant states otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// The disk has too little free space. Transient.
    #[error("the disk is full: free some space, or lower --retention-bytes")]
    DiskFull,
    /// Too many segments wait for stores. Transient.
    #[error("too many segments wait in the queue: no store takes them, or too slowly")]
    QueueFull,
    /// Too many records wait for a sync. Transient.
    #[error("the disk is too slow: too many unsynced records")]
    SyncBacklog,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The key was used with another body.
    #[error(
        "this Idempotency-Key was used with another body, other labels or another Content-Type: draw a new key for each batch"
    )]
    KeyReused,
    /// The operating system failed to write or to sync. The records may be found later, at most once.
    #[error("cannot write: {0}")]
    Io(String),
}

impl IngestError {
    /// Whether the same records may be accepted later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::DiskFull | Self::QueueFull | Self::SyncBacklog)
    }
}
