//! Bodies of HTTP requests: lines or NDJSON, compressed or not.
//!
//! ```text
//!   chunks ─► BodyReader ─► Decompressor ─► BodyRecords ─► RecordStream ─► queue
//!             waits for BodyMemory          collects up to 1 MiB
//! ```
//! A body is processed while it arrives, so its length is not limited. Up to 1 MiB of records are appended at once: a body up
//! to that size is accepted whole or not at all. If a longer one fails, the error has the number of records that were
//! accepted before.
//!
//! This module knows no routes, headers or status codes. `api` maps a request to an [`IngestRequest`] and a
//! [`BodyError`] to a reply.

mod body_memory;
mod body_reader;
mod body_records;
mod decompressor;
mod durability_wait;
mod key_sync;
mod metrics;
mod ndjson;

use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::{Durability, IdempotentBatch, IngestError, Source};
use bucksaw_record::Labels;
use tokio::sync::Semaphore;

use crate::intake::{IdAssignment, Intake, RecordStream};
use body_memory::BodyMemory;
use body_reader::BodyReader;
use body_records::{BUFFER_BYTES, BodyRecords};
use decompressor::Decompressor;
use durability_wait::DurabilityWait;
use key_sync::KeySync;

pub use body_records::BodyFormat;
pub use decompressor::Encoding;
pub use metrics::BodyMetrics;
pub use ndjson::event_time;

/// Limits of request bodies.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// A client that sends nothing of its body for this long is disconnected.
    pub idle_timeout: Duration,
    /// The longest record, in bytes; longer ones are cut.
    pub record_bytes_max: usize,
    /// The decompressed size of a body, in bytes. A body that is not compressed may have any size.
    pub decompressed_bytes_max: u64,
    /// Memory of all bodies together, in bytes; at least one and a quarter times [`Self::body_bytes_max`] is used.
    pub memory_bytes_max: usize,
    /// How long a body waits for that memory before it is refused.
    pub memory_wait_max: Duration,
    /// Bodies that are decompressed and appended at the same time.
    pub workers_max: usize,
}

impl BodyLimits {
    /// Memory that one body may need, in bytes. A snappy body may need more, because it is decompressed as a whole.
    #[must_use]
    pub fn body_bytes_max(record_bytes_max: usize) -> usize {
        Decompressor::peak_bytes_max(record_bytes_max)
    }
}

/// A source of the chunks of one body.
pub trait BodyChunks: Send {
    /// The next chunk, `None` at the end, or why the body ended early.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Result<bytes::Bytes, String>>> + Send;
}

/// A body and how it is to be ingested.
#[derive(Debug)]
pub struct IngestRequest<'a> {
    /// How it is cut into records.
    pub format: BodyFormat,
    /// How it is compressed.
    pub encoding: Encoding,
    /// The labels of its records.
    pub labels: Labels,
    /// When its records count as accepted.
    pub durability: Durability,
    /// Its idempotency key.
    pub key: Option<&'a [u8]>,
    /// The least number of bytes of the body, as its head says.
    pub bytes_min: u64,
}

/// What became of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestReply {
    /// Records that were accepted.
    pub accepted: u64,
    /// Lines that are no records.
    pub rejected: u64,
    /// The line numbers of the first of these, and why they are no records.
    pub line_errors: Vec<(u64, String)>,
}

/// Why a body was not accepted, or only a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BodyError {
    /// The reason.
    #[source]
    pub reason: BodyErrorReason,
    /// Records of the body that were accepted before, if that is known and of interest to the client.
    pub accepted: Option<u64>,
}

/// Why a body was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyErrorReason {
    /// The queue refuses it.
    #[error(transparent)]
    Refused(#[from] IngestError),
    /// The body breaks its format.
    #[error("{0}")]
    Invalid(String),
    /// It exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The client stopped sending.
    #[error("timed out while reading the body")]
    IdleTimeout,
    /// Memory for bodies is short.
    #[error("{0}")]
    MemoryShort(&'static str),
    /// A bug.
    #[error("internal error")]
    Internal,
}

impl<T: Into<BodyErrorReason>> From<T> for BodyError {
    fn from(reason: T) -> Self {
        Self { reason: reason.into(), accepted: None }
    }
}

impl BodyError {
    fn with_accepted(self, accepted: u64) -> Self {
        Self { accepted: Some(accepted), ..self }
    }
}

/// Ingests the bodies of all requests of a node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyIntake {
    intake: Intake,
    limits: Arc<BodyLimits>,
    memory: BodyMemory,
    workers: Arc<Semaphore>,
    key_sync: KeySync,
}

impl BodyIntake {
    /// Ingests into the queue of `intake`.
    #[must_use]
    pub fn new(intake: Intake, limits: BodyLimits, metrics: BodyMetrics) -> Self {
        let body_bytes_max = BodyLimits::body_bytes_max(limits.record_bytes_max);
        let memory = BodyMemory::new(limits.memory_bytes_max, body_bytes_max, limits.memory_wait_max, metrics);
        let workers = Arc::new(Semaphore::new(limits.workers_max));
        Self { intake, limits: Arc::new(limits), memory, workers, key_sync: KeySync::default() }
    }

    /// Ingests a body and waits for its durability.
    ///
    /// # Errors
    /// [`BodyError`].
    pub async fn ingest(&self, request: IngestRequest<'_>, body: impl BodyChunks) -> Result<IngestReply, BodyError> {
        let IngestRequest { format, encoding, labels, durability, key, bytes_min } = request;
        let queue = &self.intake.queue;
        let ids = match key {
            Some(key) => IdAssignment::Keyed(IdempotentBatch::new(key, &batch_context(format, &labels))),
            None => IdAssignment::consecutive(&self.intake),
        };
        let durability_wait = DurabilityWait::default();
        let stream = RecordStream { intake: self.intake.clone(), source: Source::Http, labels, durability };
        let mut records = BodyRecords::new(stream, format, ids, self.limits.record_bytes_max, durability_wait.clone());
        if bytes_min > BUFFER_BYTES as u64 {
            records.set_streamed();
        }
        let decompressor = Decompressor::new(encoding, records, self.limits.decompressed_bytes_max)?;
        let records = BodyReader::new(self, decompressor, bytes_min).read(body).await?;
        if durability == Durability::Bulk {
            queue.flush_bulk();
        }
        let durable =
            async { durability_wait.wait().await.map_err(|refusal| BodyError::from(refusal).with_accepted(0)) };
        if durability != Durability::Fast && records.batch().is_some_and(IdempotentBatch::depends_on_remembered_key) {
            tokio::try_join!(durable, self.key_sync.wait_synced(queue))?;
        } else {
            durable.await?;
        }
        Ok(records.into_reply())
    }
}

/// What determines the records of a body besides its text.
fn batch_context(format: BodyFormat, labels: &Labels) -> Vec<u8> {
    let mut context = vec![match format {
        BodyFormat::Lines => 0,
        BodyFormat::Ndjson => 1,
    }];
    labels.encode(&mut context);
    context
}
