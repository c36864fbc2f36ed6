//! What a worker has read: from messages to committed offsets, without a broker.

use std::sync::Arc;

use bucksaw_ingest::IngestError;
use bucksaw_protocols::kafka::{KafkaMapping, KafkaMessage};
use bucksaw_record::Millis;
use bucksaw_sources::intake::EventTarget;

use crate::commit_tracker::{BatchAcks, CommitTracker, DurabilityLost};
use crate::frame_batch::FrameBatch;
use crate::message_sink::MessageSink;
use crate::metrics::Metrics;
use crate::partition_table::PartitionTable;

/// An offset to commit: all messages before it are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitOffset {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// Collects the records of messages, appends them in batches, and knows which offsets may be committed.
///
/// Invariants: an offset that may be committed has only records before it that have their durability; the id of a record
/// depends on its message alone.
#[derive(Debug)]
pub(crate) struct ConsumedRecords {
    target: EventTarget,
    record_bytes_max: usize,
    metrics: Metrics,
    pub(crate) table: PartitionTable,
    batch: FrameBatch,
    /// Of the frames of the batch that were appended before the queue refused one.
    acks: BatchAcks,
    tracker: CommitTracker,
    /// Messages of the batch, and bytes of their values.
    messages: u64,
    value_bytes: u64,
    /// The arrival of the messages of the batch.
    arrival: Millis,
}

impl ConsumedRecords {
    pub(crate) fn new(
        target: EventTarget,
        record_bytes_max: usize,
        cluster_id: String,
        mapping: KafkaMapping,
        metrics: Metrics,
    ) -> Self {
        Self {
            arrival: target.intake.now(),
            target,
            record_bytes_max,
            metrics,
            table: PartitionTable::new(cluster_id, mapping),
            batch: FrameBatch::default(),
            acks: BatchAcks::default(),
            tracker: CommitTracker::default(),
            messages: 0,
            value_bytes: 0,
        }
    }

    /// Adds the record of a message.
    pub(crate) fn message(&mut self, topic: &str, message: &KafkaMessage<'_>) {
        if self.messages == 0 {
            self.arrival = self.target.intake.now();
        }
        let Some((partition, decoder)) = self.table.reader(topic, message.partition) else { return };
        if let Some(next) = partition.next {
            let skipped = u64::try_from(message.offset.saturating_sub(next)).unwrap_or_default();
            if skipped > 0 {
                self.metrics.skipped_offsets.inc_by(skipped);
            }
        }
        let mut sink = MessageSink {
            batch: &mut self.batch,
            ids: &mut partition.ids,
            place: &mut partition.place,
            // Offsets of messages are not negative.
            offset: u64::try_from(message.offset).unwrap_or_default(),
            arrival: self.arrival,
            record_bytes_max: self.record_bytes_max,
            is_ahead: false,
        };
        let undecoded = decoder.message(message, &mut sink);
        if sink.is_ahead {
            self.metrics.times_ahead.inc();
        }
        partition.next = Some(message.offset.saturating_add(1));
        partition.is_in_batch = true;
        partition.read_time = message.timestamp.and_then(|ms| u64::try_from(ms).ok()).map(Millis);
        if let Some(reason) = undecoded {
            self.metrics.undecoded.get_or_create(&[("reason", reason.name())]).inc();
            self.metrics.monitor.count_undecoded(topic);
        }
        self.messages += 1;
        self.value_bytes += message.value.map_or(0, <[u8]>::len) as u64;
    }

    /// Whether the batch should be appended before further messages are read.
    pub(crate) fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Whether messages wait for an append.
    #[cfg(test)]
    pub(crate) fn has_unappended(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Appends the batch. Blocks while the disk writes. After an error the next call goes on with the same records and ids.
    ///
    /// # Errors
    /// The refusal of the queue.
    pub(crate) fn append(&mut self) -> Result<(), IngestError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batch.append(&self.target, &self.acks)?;
        self.tracker.push(std::mem::take(&mut self.acks), self.table.take_batch_offsets());
        self.metrics.messages.inc_by(std::mem::take(&mut self.messages));
        self.metrics.bytes.inc_by(std::mem::take(&mut self.value_bytes));
        Ok(())
    }

    /// Notes which appended records have their durability now.
    ///
    /// # Errors
    /// [`DurabilityLost`]: all messages from the committed offsets on must be read again.
    pub(crate) fn settle(&mut self) -> Result<(), DurabilityLost> {
        self.tracker.settle(|next| self.table.store(next))
    }

    /// Whether all appended records have their durability.
    pub(crate) fn is_settled(&self) -> bool {
        self.tracker.is_settled()
    }

    /// Offsets of partitions that are stored further than they are committed.
    pub(crate) fn to_commit(&self) -> Vec<CommitOffset> {
        let uncommitted = self.table.partitions.iter().filter(|partition| partition.stored != partition.committed);
        uncommitted
            .filter_map(|partition| {
                let (topic, offset) = (Arc::clone(&partition.topic), partition.stored?);
                Some(CommitOffset { topic, partition: partition.partition, offset })
            })
            .collect()
    }

    /// Notes that the broker has an offset.
    pub(crate) fn set_committed(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Some(partition) = self.table.get_mut(topic, partition) {
            partition.committed = Some(offset);
        }
    }
}
