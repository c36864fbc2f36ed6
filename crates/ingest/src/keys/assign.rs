//! Assigns ids to the sections of batches with keys.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::{Id, Millis, Producer};

use super::batch::IdempotentBatch;
use super::entry::KeyEntry;
use super::remembered::RememberError;
use super::table::{KEY_AGE_MAX_MS, KeyTable};
use crate::append::IngestError;
use crate::queue::Queue;

impl Queue {
    /// Assigns ids to the records of the next section of a batch; returns the id of the first. The section is remembered from
    /// then on. `is_last` if the batch ends with it.
    ///
    /// # Errors
    /// [`IngestError::KeyReused`] if the key was used with another body, otherwise why the key cannot be remembered.
    pub fn assign_ids(&self, batch: &mut IdempotentBatch, section: &[&[u8]], is_last: bool) -> Result<Id, IngestError> {
        if let Some(halt) = self.refusal_reason() {
            return Err(halt.into());
        }
        let now = Millis(self.env.clock.unix_ms());
        let (content_hash, number) = (batch.hash_with(section), batch.section_count);
        let entry = self.remember(|table| {
            let base_time = batch.base_time.unwrap_or_else(|| table.base_time(batch, now));
            let producer = Producer::from_key(&[base_time.0.to_le_bytes(), content_hash.to_le_bytes()].concat());
            let producer = batch.scoped_ids.as_ref().map_or(producer, |ids| ids.producer(producer));
            KeyEntry { key: batch.key, number, base_time, producer, is_last, first_seen: now }
        })?;
        let sequence = if number == 0 { 0 } else { batch.last_producer.next_section_sequence() };
        batch.content_hash = content_hash;
        batch.section_count = number.saturating_add(1);
        batch.base_time = Some(entry.base_time);
        batch.last_producer = entry.producer;
        let time = Millis(entry.base_time.0.saturating_add(u64::from(number)));
        Ok(Id::new(time, entry.producer, sequence))
    }

    /// Records that a batch ends with the section that got its ids last.
    ///
    /// # Errors
    /// As [`Self::assign_ids`].
    pub fn end_batch(&self, batch: &IdempotentBatch) -> Result<(), IngestError> {
        let (Some(base_time), Some(number)) = (batch.base_time, batch.section_count.checked_sub(1)) else {
            return Ok(());
        };
        let (key, producer, first_seen) = (batch.key, batch.last_producer, Millis(self.env.clock.unix_ms()));
        self.remember(|_| KeyEntry { key, number, base_time, producer, is_last: true, first_seen }).map(drop)
    }

    fn remember(&self, entry_in: impl Fn(&mut KeyTable) -> KeyEntry) -> Result<KeyEntry, IngestError> {
        self.idempotency_keys.remember(entry_in).map_err(|failed| match failed {
            RememberError::Reused => IngestError::KeyReused,
            RememberError::Io(error) => self.record_io_error(&error),
        })
    }

    /// The number of entries written to the key file. [`Self::sync_keys`] makes at least these durable.
    pub fn keys_written(&self) -> u64 {
        self.idempotency_keys.progress.written.load(Ordering::Acquire)
    }

    /// How many of them are durable.
    pub fn keys_synced(&self) -> u64 {
        self.idempotency_keys.progress.synced.load(Ordering::Acquire)
    }

    /// Makes the remembered keys durable, so that a power cut does not lose them. Waits for the disk.
    ///
    /// # Errors
    /// [`IngestError::Io`] if the sync fails.
    pub fn sync_keys(&self) -> Result<(), IngestError> {
        self.idempotency_keys.sync().map_err(|error| {
            self.metrics.sync_failed.inc();
            IngestError::Io(format!("the keys of batches: {error}"))
        })
    }

    /// Reads the keys of earlier runs.
    pub(crate) fn load_keys(&self, names: &[String], may_have_lost_writes: bool) {
        let keys = &self.idempotency_keys;
        let restore = &mut |entry: &KeyEntry| lock(&keys.table).restore(entry);
        let damaged = lock(&keys.log).read(names, may_have_lost_writes, restore);
        lock(&keys.table).evict(Millis(self.env.clock.unix_ms()));
        keys.damaged.store(damaged, Ordering::Relaxed);
        self.metrics.damaged_keys.set(i64::try_from(damaged).unwrap_or(i64::MAX));
    }

    /// The number of entries that could not be read at the start: a retry of such a batch may be stored as new records. 0 once
    /// keys of that age are forgotten anyway.
    pub fn damaged_keys(&self) -> u64 {
        let keys = &self.idempotency_keys;
        let age = self.env.clock.uptime().saturating_sub(keys.opened_at);
        if age < Duration::from_millis(KEY_AGE_MAX_MS) { keys.damaged.load(Ordering::Relaxed) } else { 0 }
    }
}
