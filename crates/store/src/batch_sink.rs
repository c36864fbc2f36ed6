//! What gets the batches of a segment store besides its segments.

use std::fmt::Debug;

use bucksaw_ingest::SegmentView;
use bucksaw_record::Millis;

use crate::error::StoreError;

/// Gets each batch before it becomes a segment, such as to send it to a database.
pub trait BatchSink: Debug + Send + Sync {
    /// Keeps the records of queue segments: after return they are durable. A segment may be passed again, after a failure or
    /// a restart; the sink recognises it by its id and content.
    ///
    /// # Errors
    /// [`StoreError`]; then the batch is not stored, and is fetched again.
    fn keep(&self, segments: &[SegmentView]) -> Result<(), StoreError>;

    /// What waits, and why.
    fn status(&self) -> SinkStatus;
}

/// The state of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkStatus {
    /// Its address without credentials, such as `clickhouse://127.0.0.1:8123/logs`.
    pub address: String,
    /// Why the last call failed; `None` if it did not.
    pub failure: Option<String>,
    /// Since when no call has succeeded, if the last one failed.
    pub failing_since: Option<Millis>,
    /// Inserts that wait.
    pub waiting_inserts: u64,
    /// Bytes of their files.
    pub waiting_bytes: u64,
    /// When the records of the oldest of them were accepted.
    pub oldest_waiting: Option<Millis>,
}
