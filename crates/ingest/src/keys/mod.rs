//! Batches with a key: a retry gets the ids that the first try had, and another body under the same key is refused.
//!
//! A batch is cut into sections by its content alone. Each section has a producer of its own, a hash of the key, of the
//! batch's time and of all that the batch holds up to its end. So the same body under the
//! same key and time has the same ids, and two bodies that differ have different ids from the first section that differs.
//! Section `n` has the time of the batch plus `n` ms, which keeps the order of the body. The numbers of its records begin with
//! [`Producer::next_section`] of the section before it, of the first with 0, so that a line that is cut between sections can be
//! put together again.
//!
//! The time of a batch is that of its key, if the key carries one that can be right: then all nodes number it alike. Else it
//! is that of the first try, and only the node that took it knows it.
//!
//! A node remembers the key, the time and the producers of the sections. A section that has another producer than the
//! remembered one is refused before anything of it is stored. What is remembered is in the queue's directory too ([`log`]).
//!
//! A collision of hashes would make two records one. XXH3 is no cryptographic hash: a client that wants to harm a batch could
//! as well send other records under its ids by the framed protocol.

mod log;
mod scan;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_record::{Id, Millis, Producer, key_time};
use twox_hash::XxHash3_64;

use crate::append::IngestError;
use crate::config::Config;
use crate::queue::{Queue, lock};
use log::{KeyEntry, KeyLog, KeyLogProgress};
pub use scan::KeyFileReport;
use scan::scan_key_file;

/// How long a key is remembered, in milliseconds: a day.
const KEY_AGE_MAX_MS: u64 = 24 * 3_600_000;

/// How long ago the time that a key carries may be, in milliseconds: a week. Long enough for a client that keeps batches while
/// it reaches no node, and too short for a number that only looks like a time to be taken for one.
const KEY_TIME_AGE_MAX_MS: u64 = 7 * KEY_AGE_MAX_MS;

/// A batch with a key, while it comes in.
#[derive(Debug)]
pub struct IdempotentBatch {
    key: u64,
    key_time: Option<Millis>,
    /// The hash of all that was numbered, and of the key.
    content_hash: u64,
    /// Sections that were numbered.
    section_count: u32,
    base_time: Option<Millis>,
    last_producer: Producer,
}

impl IdempotentBatch {
    /// A batch with this key. `about` is what else makes its records what they are: the stream, how the body is read.
    #[must_use]
    pub fn new(key: &[u8], context: &[u8]) -> Self {
        let hash = XxHash3_64::oneshot(key);
        Self {
            key: hash,
            key_time: key_time(key),
            content_hash: XxHash3_64::oneshot_with_seed(hash, context),
            section_count: 0,
            base_time: None,
            last_producer: Producer::new(0),
        }
    }

    /// The time of the batch; known when its first section is numbered.
    #[must_use]
    pub fn base_time(&self) -> Option<Millis> {
        self.base_time
    }

    /// Whether the ids of a retry rest on what the node remembers: the time is not that of the key.
    #[must_use]
    pub fn depends_on_remembered_key(&self) -> bool {
        self.base_time.is_some() && self.base_time != self.key_time
    }

    fn hash_with(&self, section: &[&[u8]]) -> u64 {
        let with = |seed, part: &&[u8]| {
            XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(seed, &(part.len() as u64).to_le_bytes()), part)
        };
        section.iter().fold(self.content_hash, with)
    }
}

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

/// Checks a file in the queue's directory; `None` when it is none of keys.
///
/// # Errors
/// What the operating system says.
pub(crate) fn check(env: &Env, path: &Path, may_have_lost_writes: bool) -> std::io::Result<Option<KeyFileReport>> {
    let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".keys")?.parse::<Id>().ok());
    let Some(id) = name else { return Ok(None) };
    scan_key_file(&*env.fs.open(path)?, id, may_have_lost_writes, &mut |_| {}).map(Some)
}

/// The keys of the last day, in memory and on disk.
#[derive(Debug)]
pub(crate) struct IdempotencyKeys {
    /// Held by the thread that writes to the key file, also while it waits for the disk. Taken before [`Self::table`].
    log: Mutex<KeyLog>,
    /// Never held over disk I/O. Entries are added only with [`Self::log`] held; any thread may evict.
    table: Mutex<KeyTable>,
    progress: Arc<KeyLogProgress>,
    /// Entries that could not be read at the start.
    damaged: AtomicU64,
    /// The uptime at the start.
    opened_at: Duration,
}

/// Why a section is not numbered.
#[derive(Debug)]
enum RememberError {
    Reused,
    Io(std::io::Error),
}

#[derive(Debug)]
struct KeyTable {
    keys_max: usize,
    sections_max: usize,
    batches: HashMap<u64, RememberedBatch>,
    /// The producers of the sections behind the first, of batches that have more than one.
    later_producers: HashMap<u64, Vec<Producer>>,
    /// In the order in which they were first seen here.
    insertion_order: VecDeque<(Millis, u64)>,
    /// How many keys were removed from the front of [`Self::insertion_order`].
    evicted_count: u64,
    later_section_count: usize,
}

/// What is remembered of a batch.
#[derive(Debug)]
struct RememberedBatch {
    base: Millis,
    first_producer: Producer,
    /// Whether it is known where the batch ends. Of one that was torn, it is not.
    is_complete: bool,
}

/// What a section is to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SectionStatus {
    Known,
    New,
    /// Its batch was forgotten while it came in.
    Forgotten,
    Reused,
}

impl IdempotencyKeys {
    /// An empty table.
    pub(crate) fn new(env: Env, dir: std::path::PathBuf, config: &Config) -> Self {
        let opened_at = env.clock.uptime();
        let progress = Arc::new(KeyLogProgress::default());
        let log = Mutex::new(KeyLog::new(env, dir, Arc::clone(&progress)));
        let table = Mutex::new(KeyTable::new(config.keys_max, config.key_sections_max));
        Self { log, table, progress, damaged: AtomicU64::new(0), opened_at }
    }

    /// Compares a section with the remembered ones, and remembers it if it is new. `entry_in` makes its entry, whose time
    /// depends on the table.
    ///
    /// Known sections wait for no disk. A new one is written before it is in the table, so that a restart remembers no less.
    /// Between the two only the thread with the log may add entries, so two first sections of one key get the same time.
    fn remember(&self, entry_in: impl Fn(&mut KeyTable) -> KeyEntry) -> Result<KeyEntry, RememberError> {
        let classify = || {
            let mut table = lock(&self.table);
            let entry = entry_in(&mut table);
            match table.classify(&entry) {
                SectionStatus::Known | SectionStatus::Forgotten => Ok((entry, false)),
                SectionStatus::New => Ok((entry, true)),
                SectionStatus::Reused => Err(RememberError::Reused),
            }
        };
        if let (entry, false) = classify()? {
            return Ok(entry);
        }
        let mut log = lock(&self.log);
        let (entry, is_new) = classify()?;
        if !is_new {
            return Ok(entry);
        }
        log.append(&entry, &self.table).map_err(RememberError::Io)?;
        let mut table = lock(&self.table);
        // Its batch may have been evicted meanwhile.
        if table.classify(&entry) == SectionStatus::New {
            table.insert(&entry);
        }
        table.evict(entry.first_seen);
        Ok(entry)
    }

    /// Makes the entries that were written durable.
    fn sync(&self) -> std::io::Result<()> {
        let sync = lock(&self.log).begin_sync(&self.table)?;
        let synced = sync.run();
        lock(&self.log).end_sync(&sync, synced.is_ok());
        synced
    }
}

impl KeyTable {
    /// Remembers at most `keys_max` keys, and at most `sections_max` sections behind the first of their batch.
    fn new(keys_max: usize, sections_max: usize) -> Self {
        let (batches, more, order) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Self {
            keys_max,
            sections_max,
            batches,
            later_producers: more,
            insertion_order: order,
            evicted_count: 0,
            later_section_count: 0,
        }
    }

    /// The time of a batch that begins.
    fn base_time(&mut self, batch: &IdempotentBatch, now: Millis) -> Millis {
        self.evict(now);
        // A remembered time comes first, so that a retry keeps it when the time of its key is no longer valid, or only now.
        let remembered = self.batches.get(&batch.key).map(|known| known.base);
        remembered.or_else(|| valid_key_time(batch.key_time?, now)).unwrap_or(now)
    }

    fn classify(&self, entry: &KeyEntry) -> SectionStatus {
        let Some(known) = self.batches.get(&entry.key) else {
            return if entry.number == 0 { SectionStatus::New } else { SectionStatus::Forgotten };
        };
        let more = self.later_producers_of(entry.key);
        let (sections, number) = (1 + more.len(), entry.number as usize);
        if known.base != entry.base_time {
            return SectionStatus::Reused;
        }
        let producer = number.checked_sub(1).map_or(Some(known.first_producer), |at| more.get(at).copied());
        match producer {
            Some(producer) if producer != entry.producer => SectionStatus::Reused,
            // Shorter than what is known.
            Some(_) if entry.is_last && number + 1 < sections => SectionStatus::Reused,
            Some(_) if entry.is_last && !known.is_complete => SectionStatus::New,
            Some(_) => SectionStatus::Known,
            // Longer than what is known to be the whole.
            None if known.is_complete || number > sections => SectionStatus::Reused,
            None => SectionStatus::New,
        }
    }

    fn insert(&mut self, entry: &KeyEntry) {
        match self.batches.get_mut(&entry.key) {
            None => {
                let KeyEntry { base_time: base, producer, is_last, .. } = *entry;
                self.batches
                    .insert(entry.key, RememberedBatch { base, first_producer: producer, is_complete: is_last });
                self.insertion_order.push_back((entry.first_seen, entry.key));
            }
            Some(known) => {
                known.is_complete |= entry.is_last;
                if entry.number as usize > self.later_producers_of(entry.key).len() {
                    self.later_producers.entry(entry.key).or_default().push(entry.producer);
                    self.later_section_count += 1;
                }
            }
        }
    }

    /// Takes note of what was found on disk.
    fn restore(&mut self, entry: &KeyEntry) {
        match self.classify(entry) {
            SectionStatus::New => self.insert(entry),
            // The key was forgotten and used again.
            SectionStatus::Reused if entry.number == 0 => {
                self.insertion_order.retain(|(_, key)| *key != entry.key);
                self.remove_batch(entry.key);
                self.insert(entry);
            }
            _ => {}
        }
        // No more is held than at any other time.
        self.evict(Millis(0));
    }

    fn evict(&mut self, now: Millis) {
        while let Some((seen, key)) = self.insertion_order.front().copied() {
            let is_too_much =
                self.insertion_order.len() > self.keys_max || self.later_section_count > self.sections_max;
            if !is_too_much && now.0.saturating_sub(seen.0) <= KEY_AGE_MAX_MS {
                break;
            }
            self.remove_batch(key);
            self.insertion_order.pop_front();
            self.evicted_count += 1;
        }
    }

    fn remove_batch(&mut self, key: u64) {
        self.batches.remove(&key);
        self.later_section_count -= self.later_producers.remove(&key).map_or(0, |more| more.len());
    }

    fn later_producers_of(&self, key: u64) -> &[Producer] {
        self.later_producers.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many entries tell all that is remembered.
    fn entries_len(&self) -> usize {
        self.batches.len() + self.later_section_count
    }

    /// The entries of the next keys in the order in which they were first seen, of some more than `entries_max` entries at
    /// once; empty behind the last. `position` counts keys, evicted ones included.
    fn next_entries(&self, position: &mut u64, entries_max: usize) -> Vec<KeyEntry> {
        *position = (*position).max(self.evicted_count);
        let mut entries = Vec::new();
        let skipped = usize::try_from(*position - self.evicted_count).unwrap_or(usize::MAX);
        for (seen, key) in self.insertion_order.iter().skip(skipped) {
            if entries.len() >= entries_max {
                break;
            }
            *position += 1;
            let Some(known) = self.batches.get(key) else { continue };
            let later = self.later_producers_of(*key);
            let producers = std::iter::once(known.first_producer).chain(later.iter().copied());
            entries.extend((0_u32..).zip(producers).map(|(number, producer)| KeyEntry {
                key: *key,
                number,
                base_time: known.base,
                producer,
                is_last: known.is_complete && number as usize == later.len(),
                first_seen: *seen,
            }));
        }
        entries
    }
}

/// The time that a key carries, unless it is too far from now: a key must not put records at times at which they are not
/// looked for.
fn valid_key_time(at: Millis, now: Millis) -> Option<Millis> {
    let (_, is_ahead) = at.clamp_future(now);
    (!is_ahead && at >= now.saturating_sub(KEY_TIME_AGE_MAX_MS)).then_some(at)
}

#[cfg(test)]
mod tests;
