//! Assigns ids to the sections of batches with keys.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_record::{Id, Millis, Producer};

use super::batch::IdempotentBatch;
use super::entry::KeyEntry;
use super::remembered::RememberError;
use super::table::{KEY_AGE_MAX_MS, KeyTable};
use crate::append::IngestError;
use crate::lock::lock;
use crate::queue::Queue;

impl Queue {
    /// Numbers the next section of a batch, whose records are `section`; gives the id of its first record. From then on the
    /// section is remembered. `is_last` says that the batch ends with it.
    ///
    /// # Errors
    /// [`Refusal::Reused`] when the key was used with another body, else what keeps the key from being remembered.
    pub fn assign_ids(&self, batch: &mut IdempotentBatch, section: &[&[u8]], is_last: bool) -> Result<Id, IngestError> {
        if let Some(halt) = self.refusal_reason() {
            return Err(halt.into());
        }
        let now = Millis(self.env.clock.unix_ms());
        let content = batch.hash_with(section);
        let entry_in = |table: &mut KeyTable| {
            let base_time = batch.base_time.unwrap_or_else(|| table.base_time(batch, now));
            let producer = Producer::from_key(&[base_time.0.to_le_bytes(), content.to_le_bytes()].concat());
            KeyEntry { key: batch.key, number: batch.section_count, base_time, producer, is_last, first_seen: now }
        };
        let entry = self.idempotency_keys.remember(entry_in).map_err(|failed| self.key_error(failed))?;
        let KeyEntry { base_time: base, producer, .. } = entry;
        let at = Millis(base.0.saturating_add(u64::from(batch.section_count)));
        let first = Id::new(
            at,
            producer,
            if batch.section_count == 0 { 0 } else { batch.last_producer.next_section_sequence() },
        );
        *batch = IdempotentBatch {
            content_hash: content,
            section_count: batch.section_count.saturating_add(1),
            base_time: Some(base),
            last_producer: producer,
            ..*batch
        };
        Ok(first)
    }

    /// The batch is at its end, behind the last section that was numbered.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub fn end_batch(&self, batch: &IdempotentBatch) -> Result<(), IngestError> {
        let (Some(base), Some(number)) = (batch.base_time, batch.section_count.checked_sub(1)) else { return Ok(()) };
        let now = Millis(self.env.clock.unix_ms());
        let last = KeyEntry {
            key: batch.key,
            number,
            base_time: base,
            producer: batch.last_producer,
            is_last: true,
            first_seen: now,
        };
        self.idempotency_keys.remember(|_| last).map(drop).map_err(|failed| self.key_error(failed))
    }

    /// How many notes of keys were written so far: [`Self::sync_keys`] makes at least these durable.
    #[must_use]
    pub fn keys_written(&self) -> u64 {
        self.idempotency_keys.progress.written()
    }

    /// How many of them are durable.
    #[must_use]
    pub fn keys_synced(&self) -> u64 {
        self.idempotency_keys.progress.synced()
    }

    /// Makes what is remembered of keys durable, so that a power cut does not make the node forget it. Waits for the disk.
    ///
    /// # Errors
    /// [`Refusal::Io`]: the disk fails to sync. The records may or may not be found later.
    pub fn sync_keys(&self) -> Result<(), IngestError> {
        self.idempotency_keys.sync().map_err(|error| {
            self.metrics.sync_failed.inc();
            IngestError::Io(format!("the keys of batches: {error}"))
        })
    }

    /// Reads what an earlier run remembered.
    pub(crate) fn load_keys(&self, names: &[String], may_have_lost_writes: bool) {
        let now = Millis(self.env.clock.unix_ms());
        let keys = &self.idempotency_keys;
        let restore = &mut |entry: &KeyEntry| lock(&keys.table).restore(entry);
        let damaged = lock(&keys.log).read(names, may_have_lost_writes, restore);
        lock(&keys.table).evict(now);
        keys.damaged.store(damaged, Ordering::Relaxed);
        self.metrics.damaged_keys.set(i64::try_from(damaged).unwrap_or(i64::MAX));
    }

    /// How many notes of keys could not be read at the start: a retry of such a batch may be stored as new records. 0 when
    /// the start is as long ago as a key is remembered.
    #[must_use]
    pub fn damaged_keys(&self) -> u64 {
        let keys = &self.idempotency_keys;
        let age = self.env.clock.uptime().saturating_sub(keys.opened_at);
        if age < Duration::from_millis(KEY_AGE_MAX_MS) { keys.damaged.load(Ordering::Relaxed) } else { 0 }
    }

    fn key_error(&self, failed: RememberError) -> IngestError {
        match failed {
            RememberError::Reused => IngestError::KeyReused,
            RememberError::Io(error) => self.record_io_error(&error),
        }
    }
}
