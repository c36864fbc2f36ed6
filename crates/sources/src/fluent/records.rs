//! The records of the messages of one connection.

use std::sync::Arc;

use bucksaw_auth::ClientAccess;
use bucksaw_env::log_limited;
use bucksaw_ingest::{Durability, IdempotentBatch, IngestError, Source};
use bucksaw_protocols::fluent::{FluentDecoder, FluentError, FluentMessage};
use bucksaw_record::Labels;

use super::acks::PendingAck;
use super::connection_end::FluentEnd;
use crate::append_retry::retry_append;
use crate::intake::{EventRecords, EventTarget, IdAssignment};
use crate::listener_state::ListenerState;
use crate::socket_reader::SocketReader;

/// Decodes messages, and appends their records.
pub(super) struct FluentRecords<'a> {
    shared: &'a Arc<ListenerState>,
    client: &'a ClientAccess,
    decoder: FluentDecoder,
    /// The records of messages without a chunk.
    unnamed: EventRecords,
}

impl<'a> FluentRecords<'a> {
    pub(super) fn new(shared: &'a Arc<ListenerState>, client: &'a ClientAccess) -> Self {
        let unnamed = records(shared, client, IdAssignment::arrival(&shared.intake)).retaining();
        Self { shared, client, decoder: FluentDecoder::new(&Labels::default()), unnamed }
    }

    /// Appends the records of a chunk, and collects those of a message without one until [`Self::flush`]. Waits while the queue
    /// refuses records for now.
    pub(super) async fn append(
        &mut self,
        message: &[u8],
        feed: &mut SocketReader<'_>,
    ) -> Result<Option<PendingAck>, FluentEnd> {
        let chunk = FluentDecoder::chunk(message)?;
        // A batch that is full was appended, and what the queue then refused must be appended before anything else.
        if chunk.is_some() || self.unnamed.has_failed() || self.unnamed.retained_records() > 0 {
            self.flush(feed).await?;
        }
        match chunk {
            Some(chunk) => self.append_chunk(chunk, message, feed).await.map(Some),
            None => self.collect(message).map(|()| None),
        }
    }

    fn collect(&mut self, message: &[u8]) -> Result<(), FluentEnd> {
        let Self { shared, decoder, unnamed, .. } = self;
        let rejected = unnamed.rejected();
        let decoded = decoder.decode(message, shared.config.message_bytes(), unnamed)?;
        count_rejected(shared, &decoded, unnamed.rejected() - rejected);
        Ok(())
    }

    /// Appends the collected records.
    pub(super) async fn flush(&mut self, feed: &mut SocketReader<'_>) -> Result<(), FluentEnd> {
        let Self { shared, unnamed, .. } = self;
        if let Err(refusal) = unnamed.flush() {
            let _blocked = shared.count_blocked();
            let retried = retry_append(&mut feed.stop, shared, refusal.into(), || Ok(unnamed.flush()?)).await;
            retried.inspect_err(|reason| shared.count_dropped(unnamed, reason))?;
        }
        unnamed.release_memory();
        Ok(())
    }

    async fn append_chunk(
        &mut self,
        chunk: &[u8],
        message: &[u8],
        feed: &mut SocketReader<'_>,
    ) -> Result<PendingAck, FluentEnd> {
        let shared = self.shared;
        let mut is_reused = false;
        let mut appended = None;
        // A refused chunk is decoded again: its records get the same ids.
        let mut attempt = || {
            let result = self.try_append_chunk((!is_reused).then_some(chunk), message);
            match result {
                Err(FluentAppendError::Refused(IngestError::KeyReused)) => {
                    is_reused = true;
                    Err(IngestError::KeyReused)
                }
                Err(FluentAppendError::Refused(refusal)) => Err(refusal),
                other => {
                    appended = Some(other);
                    Ok(())
                }
            }
        };
        if let Err(refusal) = attempt() {
            let _blocked = shared.count_blocked();
            retry_append(&mut feed.stop, shared, refusal, attempt).await?;
        }
        match appended {
            Some(Ok(ack)) => Ok(ack),
            Some(Err(FluentAppendError::Message(error))) => Err(error.into()),
            Some(Err(FluentAppendError::Refused(refusal))) => Err(refusal.into()),
            None => Err(FluentEnd::Unreachable),
        }
    }

    /// Appends the records of a chunk, with ids from its name. A sender that gives one name to two chunks loses nothing: the
    /// second gets other ids.
    fn try_append_chunk(&mut self, chunk: Option<&[u8]>, message: &[u8]) -> Result<PendingAck, FluentAppendError> {
        let Self { shared, client, decoder, .. } = self;
        let ids = match chunk {
            Some(chunk) => IdAssignment::Keyed(IdempotentBatch::new(chunk, Source::Fluent.name().as_bytes())),
            None => IdAssignment::consecutive(&shared.intake),
        };
        let mut records = records(shared, client, ids).without_waiting();
        let decoded = decoder.decode(message, shared.config.message_bytes(), &mut records);
        let decoded = decoded.map_err(FluentAppendError::Message)?;
        records.finish().map_err(|error| FluentAppendError::Refused(error.into()))?;
        count_rejected(shared, &decoded, records.rejected());
        let depends_on_key = records.batch().is_some_and(IdempotentBatch::depends_on_remembered_key);
        Ok(PendingAck {
            durability_wait: records.durability_wait(),
            syncs_keys: depends_on_key && shared.setup.durability != Durability::Fast,
            answer: decoded.ack.unwrap_or_default(),
            _waiting: shared.waiting_senders.begin(),
        })
    }
}

/// Why a chunk is not appended.
enum FluentAppendError {
    Message(FluentError),
    Refused(IngestError),
}

fn records(shared: &ListenerState, client: &ClientAccess, ids: IdAssignment) -> EventRecords {
    let intake = shared.intake.clone().of_client(client);
    let target = EventTarget { intake, source: Source::Fluent, durability: shared.setup.durability };
    EventRecords::new(target, ids, shared.config.record_bytes())
}

/// Counts the entries that the decoder refused; the sink has counted `counted`.
fn count_rejected(shared: &ListenerState, message: &FluentMessage, counted: u64) {
    let metrics = shared.intake.queue.metrics();
    let rejected = metrics.rejected_records.get_or_create(&Source::Fluent.label());
    rejected.inc_by(message.decoded.rejected.saturating_sub(counted));
    if let Some(reason) = &message.decoded.first_error {
        log_limited!(shared.log_limits, warn, listener = shared.setup.name, %reason, "a record was refused");
    }
}
