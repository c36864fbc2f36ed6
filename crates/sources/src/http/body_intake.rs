//! Ingests request bodies and waits for their durability.

use std::sync::Arc;

use bucksaw_auth::ClientAccess;
use bucksaw_ingest::{Durability, IdempotentBatch, Source};
use bucksaw_protocols::EventSink;
use bucksaw_record::Labels;
use bucksaw_record::time::{LineTimeReader, TimeZone, zone_name};
use tokio::sync::{Mutex, Semaphore};

use super::body_error::{BodyError, BodyErrorReason};
use super::body_memory::BodyMemory;
use super::body_reader::{BodyChunks, BodyLimits, BodyReader, BodyResources};
use super::body_records::{BUFFER_BYTES, BodyRecords};
use super::decompressor::{Decompressor, PEAK_BYTES_MAX, decompressor_bytes};
use super::event_body::{BatchPlan, BatchRequest, EventBody, EventRequest, text_bytes_max};
use super::journal_body::{JournalBody, JournalReply};
use super::metrics::BodyMetrics;
use super::request::{BodyFormat, Encoding, IngestReply, IngestRequest};
use crate::intake::{DurabilityWait, EventFilter, EventRecords, EventTarget, IdAssignment, Intake, RecordStream};

/// Memory that one body may need, in bytes. A snappy body may need more, because it is decompressed as a whole.
pub fn body_bytes_max(record_bytes_max: usize) -> usize {
    PEAK_BYTES_MAX + BodyRecords::peak_bytes_max(record_bytes_max)
}

/// Ingests the bodies of all requests of a node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyIntake {
    intake: Intake,
    resources: Arc<BodyResources>,
    /// Held while idempotency keys are synced.
    key_sync: Arc<Mutex<()>>,
}

impl BodyIntake {
    /// Ingests into the queue of `intake`.
    pub fn new(intake: Intake, limits: BodyLimits, metrics: BodyMetrics) -> Self {
        let overflow_bytes = body_bytes_max(limits.record_bytes_max);
        let memory = BodyMemory::new(limits.memory_bytes_max, overflow_bytes, limits.memory_wait_max, metrics);
        let workers = Arc::new(Semaphore::new(limits.workers_max));
        let clock = Arc::clone(&intake.env.clock);
        let resources = Arc::new(BodyResources { limits, memory, workers, clock });
        Self { intake, resources, key_sync: Arc::default() }
    }

    /// The same with a filter of events.
    #[must_use]
    pub fn with_filter(self, filter: Option<Arc<dyn EventFilter>>) -> Self {
        Self { intake: self.intake.with_filter(filter), ..self }
    }

    /// The same for the records of a client.
    #[must_use]
    pub fn of_client(&self, client: &ClientAccess) -> Self {
        Self { intake: self.intake.clone().of_client(client), ..self.clone() }
    }

    /// Ingests a body and waits for its durability.
    ///
    /// # Errors
    /// [`BodyError`].
    pub async fn ingest(&self, request: IngestRequest<'_>, body: impl BodyChunks) -> Result<IngestReply, BodyError> {
        let IngestRequest { format, encoding, line_zone, labels, durability, key, batch_time, bytes_min } = request;
        let mut ids = self.ids(key, &batch_context(format, line_zone.as_ref(), &labels));
        if let (IdAssignment::Keyed(batch), Some(at)) = (&mut ids, batch_time) {
            *batch = batch.clone().with_time(at);
        }
        let limits = &self.resources.limits;
        let durability_wait = DurabilityWait::default();
        let stream = RecordStream { intake: self.intake.clone(), source: Source::Http, labels, durability };
        let mut records = BodyRecords::new(stream, format, ids, limits.record_bytes_max, durability_wait.clone());
        records.is_streamed = bytes_min > BUFFER_BYTES as u64;
        records.line_times = line_zone.filter(|_| format == BodyFormat::Lines).map(LineTimeReader::new);
        let decompressor = Decompressor::new(encoding, records, limits.decompressed_bytes_max)?;
        let records = BodyReader::new(&self.resources, decompressor, bytes_min).read(body).await?;
        self.wait(durability, &durability_wait, records.batch()).await?;
        Ok(records.into_reply())
    }

    /// Ingests a body of events: collects it, decodes it, and waits for the durability of its records. Returns what `decode`
    /// returned; the events that it gave to the sink are records then, whatever it returned.
    ///
    /// # Errors
    /// [`BodyError`].
    pub async fn ingest_events<T: Send + 'static>(
        &self,
        request: EventRequest<'_>,
        body: impl BodyChunks,
        decode: impl FnOnce(&[u8], &mut dyn EventSink) -> T + Send + 'static,
    ) -> Result<T, BodyError> {
        let EventRequest { source, encoding, durability, key, context, bytes_min } = request;
        let limits = &self.resources.limits;
        let target = EventTarget { intake: self.intake.clone(), source, durability };
        let context = [source.name().as_bytes(), b"\0", context].concat();
        let records = EventRecords::new(target, self.ids(key, &context), limits.record_bytes_max);
        let durability_wait = records.durability_wait();
        let text_bytes_max = self.event_text_bytes_max(encoding);
        let decode = Box::new(move |body: &[u8], records: &mut EventRecords| decode(body, records));
        let consumer = EventBody::new(decode, records, text_bytes_max, limits.record_bytes_max);
        let decompressor = Decompressor::new(encoding, consumer, limits.decompressed_bytes_max)?;
        let consumer = BodyReader::new(&self.resources, decompressor, bytes_min).read(body).await?;
        let (records, decoded) = consumer.into_parts();
        self.wait(durability, &durability_wait, records.batch()).await?;
        decoded.ok_or_else(|| BodyErrorReason::Internal.into())
    }

    /// Ingests a body of events as [`Self::ingest_events`] does, which states itself how: `plan` reads that from the whole body.
    ///
    /// # Errors
    /// That of `plan`, or [`BodyError`].
    pub async fn ingest_batch<P: Send + 'static, T: Send + 'static, E: From<BodyError> + Send + 'static>(
        &self,
        request: BatchRequest,
        body: impl BodyChunks,
        plan: impl FnOnce(&[u8]) -> Result<(BatchPlan, P), E> + Send + 'static,
        decode: impl FnOnce(&[u8], P, &mut dyn EventSink) -> T + Send + 'static,
    ) -> Result<T, E> {
        let BatchRequest { source, encoding, bytes_min } = request;
        let limits = &self.resources.limits;
        let target = EventTarget { intake: self.intake.clone(), source, durability: Durability::Fast };
        let records = EventRecords::new(target, self.ids(None, &[]), limits.record_bytes_max);
        let durability_wait = records.durability_wait();
        let text_bytes_max = self.event_text_bytes_max(encoding);
        let decode = Box::new(move |body: &[u8], records: &mut EventRecords| -> Result<(Durability, T), E> {
            let (BatchPlan { durability, key }, plan) = plan(body)?;
            records.set_durability(durability);
            if let Some(key) = key {
                records.set_batch(IdempotentBatch::new(&key, source.name().as_bytes()));
            }
            Ok((durability, decode(body, plan, records)))
        });
        let consumer = EventBody::new(decode, records, text_bytes_max, limits.record_bytes_max);
        let decompressor = Decompressor::new(encoding, consumer, limits.decompressed_bytes_max)?;
        let consumer = BodyReader::new(&self.resources, decompressor, bytes_min).read(body).await?;
        let (records, decoded) = consumer.into_parts();
        let decoded = decoded.ok_or_else(|| BodyError::from(BodyErrorReason::Internal))?;
        let (durability, decoded) = decoded?;
        self.wait(durability, &durability_wait, records.batch()).await?;
        Ok(decoded)
    }

    /// Ingests a body of journal entries while it arrives, and waits for the durability of its records, which all have
    /// `labels`. A body with a key is cut by its text alone, so a key is not used.
    ///
    /// # Errors
    /// [`BodyError`]. The entries before it may be accepted.
    pub async fn ingest_journal(
        &self,
        request: EventRequest<'_>,
        labels: &Labels,
        body: impl BodyChunks,
    ) -> Result<JournalReply, BodyError> {
        let EventRequest { source, encoding, durability, bytes_min, .. } = request;
        let limits = &self.resources.limits;
        let target = EventTarget { intake: self.intake.clone(), source, durability };
        let records = EventRecords::new(target, self.ids(None, &[]), limits.record_bytes_max);
        let durability_wait = records.durability_wait();
        let consumer = JournalBody::new(labels, records, limits.record_bytes_max);
        let decompressor = Decompressor::new(encoding, consumer, limits.decompressed_bytes_max)?;
        let consumer = BodyReader::new(&self.resources, decompressor, bytes_min).read(body).await?;
        self.wait(durability, &durability_wait, None).await?;
        Ok(consumer.reply())
    }

    /// The longest body of events, in bytes after decompression.
    pub fn event_text_bytes_max(&self, encoding: Encoding) -> usize {
        let memory_bytes = self.resources.memory.request_bytes_max();
        text_bytes_max(memory_bytes, decompressor_bytes(encoding), self.resources.limits.record_bytes_max)
    }

    fn ids(&self, key: Option<&[u8]>, context: &[u8]) -> IdAssignment {
        match key {
            Some(key) => IdAssignment::Keyed(IdempotentBatch::new(key, context)),
            None => IdAssignment::consecutive(&self.intake),
        }
    }

    /// Waits for the durability of the records of a body.
    async fn wait(
        &self,
        durability: Durability,
        records: &DurabilityWait,
        batch: Option<&IdempotentBatch>,
    ) -> Result<(), BodyError> {
        if durability == Durability::Bulk {
            self.intake.queue.flush_bulk();
        }
        let durable = async { records.wait().await.map_err(|refusal| BodyError::from(refusal).with_accepted(0)) };
        if durability != Durability::Fast && batch.is_some_and(IdempotentBatch::depends_on_remembered_key) {
            tokio::try_join!(durable, self.sync_keys())?;
        } else {
            durable.await?;
        }
        Ok(())
    }

    /// Makes all idempotency keys durable that are written now. One sync serves all batches that wait for it.
    async fn sync_keys(&self) -> Result<(), BodyError> {
        let queue = Arc::clone(&self.intake.queue);
        let written = queue.keys_written();
        let _guard = self.key_sync.lock().await;
        if queue.keys_synced() >= written {
            return Ok(());
        }
        let synced = tokio::task::spawn_blocking(move || queue.sync_keys()).await;
        Ok(synced.map_err(|_| BodyErrorReason::Internal)??)
    }
}

/// What determines the records of a body besides its text.
fn batch_context(format: BodyFormat, line_zone: Option<&TimeZone>, labels: &Labels) -> Vec<u8> {
    let mut context = vec![match format {
        BodyFormat::Lines => 0,
        BodyFormat::Ndjson => 1,
    }];
    labels.encode(&mut context);
    if let Some(zone) = line_zone {
        context.extend_from_slice(zone_name(zone).as_bytes());
    }
    context
}
