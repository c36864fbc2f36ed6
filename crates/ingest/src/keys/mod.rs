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
use std::time::Duration;

use bucksaw_doors::Doors;
use bucksaw_record::{Id, Millis, Producer, key_time};
use twox_hash::XxHash3_64;

use crate::append::Refusal;
use crate::config::Config;
use crate::queue::{Queue, lock};
use log::{Entry, Log};
pub use scan::KeyNotes;
use scan::scan;

/// How long a key is remembered, in milliseconds: a day.
const KEY_AGE_MAX_MS: u64 = 24 * 3_600_000;

/// How long ago the time that a key carries may be, in milliseconds: a week. Long enough for a client that keeps batches while
/// it reaches no node, and too short for a number that only looks like a time to be taken for one.
const STATED_AGE_MAX_MS: u64 = 7 * KEY_AGE_MAX_MS;

/// A batch with a key, while it comes in.
#[derive(Debug)]
pub struct Batch {
    key: u64,
    stated: Option<Millis>,
    /// The hash of all that was numbered, and of the key.
    content: u64,
    /// Sections that were numbered.
    sections: u32,
    base: Option<Millis>,
    last: Producer,
}

impl Batch {
    /// A batch with this key. `about` is what else makes its records what they are: the stream, how the body is read.
    #[must_use]
    pub fn new(key: &[u8], about: &[u8]) -> Self {
        let hash = XxHash3_64::oneshot(key);
        Self {
            key: hash,
            stated: key_time(key),
            content: XxHash3_64::oneshot_with_seed(hash, about),
            sections: 0,
            base: None,
            last: Producer::new(0),
        }
    }

    /// The time of the batch; known when its first section is numbered.
    #[must_use]
    pub fn base(&self) -> Option<Millis> {
        self.base
    }

    /// Whether the ids of a retry rest on what the node remembers: the time is not that of the key.
    #[must_use]
    pub fn rests_on_memory(&self) -> bool {
        self.base.is_some() && self.base != self.stated
    }

    fn content_with(&self, section: &[&[u8]]) -> u64 {
        let with = |seed, part: &&[u8]| {
            XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(seed, &(part.len() as u64).to_le_bytes()), part)
        };
        section.iter().fold(self.content, with)
    }
}

impl Queue {
    /// Numbers the next section of a batch, whose records are `section`; gives the id of its first record. From then on the
    /// section is remembered. `is_last` says that the batch ends with it.
    ///
    /// # Errors
    /// [`Refusal::Reused`] when the key was used with another body, else what keeps the key from being remembered.
    pub fn number(&self, batch: &mut Batch, section: &[&[u8]], is_last: bool) -> Result<Id, Refusal> {
        if let Some(halt) = self.refusing() {
            return Err(halt.into());
        }
        let now = Millis(self.doors.clock.unix_ms());
        let content = batch.content_with(section);
        let mut keys = lock(&self.keys);
        let base = batch.base.unwrap_or_else(|| keys.base(batch, now));
        let producer = Producer::keyed(&[base.0.to_le_bytes(), content.to_le_bytes()].concat());
        let known = Entry { key: batch.key, number: batch.sections, base, producer, is_last, seen: now };
        keys.take(known).map_err(|failed| self.not_remembered(failed))?;
        drop(keys);
        let at = Millis(base.0.saturating_add(u64::from(batch.sections)));
        let first = Id::new(at, producer, if batch.sections == 0 { 0 } else { batch.last.next_section() });
        *batch =
            Batch { content, sections: batch.sections.saturating_add(1), base: Some(base), last: producer, ..*batch };
        Ok(first)
    }

    /// The batch is at its end, behind the last section that was numbered.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub fn end_batch(&self, batch: &Batch) -> Result<(), Refusal> {
        let (Some(base), Some(number)) = (batch.base, batch.sections.checked_sub(1)) else { return Ok(()) };
        let now = Millis(self.doors.clock.unix_ms());
        let last = Entry { key: batch.key, number, base, producer: batch.last, is_last: true, seen: now };
        lock(&self.keys).take(last).map_err(|failed| self.not_remembered(failed))
    }

    /// How many notes of keys were written so far: [`Self::sync_keys`] makes at least these durable.
    #[must_use]
    pub fn keys_written(&self) -> u64 {
        lock(&self.keys).log.written()
    }

    /// How many of them are durable.
    #[must_use]
    pub fn keys_synced(&self) -> u64 {
        lock(&self.keys).log.synced()
    }

    /// Makes what is remembered of keys durable, so that a power cut does not make the node forget it. Waits for the disk.
    ///
    /// # Errors
    /// [`Refusal::Io`]: the disk fails to sync. The records may or may not be found later.
    pub fn sync_keys(&self) -> Result<(), Refusal> {
        let sync = lock(&self.keys).begin_sync();
        let synced = sync.and_then(|sync| {
            let synced = sync.run();
            lock(&self.keys).log.end_sync(&sync, synced.is_ok());
            synced
        });
        synced.map_err(|error| {
            self.metrics.sync_failed.inc();
            Refusal::Io(format!("the keys of batches: {error}"))
        })
    }

    /// Reads what an earlier run remembered.
    pub(crate) fn recall_keys(&self, names: &[String], may_have_lost_writes: bool) {
        let now = Millis(self.doors.clock.unix_ms());
        let mut keys = lock(&self.keys);
        let Keys { log, known, damaged, .. } = &mut *keys;
        *damaged = log.read(names, may_have_lost_writes, &mut |entry| known.recall(entry));
        known.forget(now);
        self.metrics.damaged_keys.set(i64::try_from(*damaged).unwrap_or(i64::MAX));
    }

    /// How many notes of keys could not be read at the start: a retry of such a batch may be stored as new records. 0 when
    /// the start is as long ago as a key is remembered.
    #[must_use]
    pub fn damaged_keys(&self) -> u64 {
        let keys = lock(&self.keys);
        let age = self.doors.clock.uptime().saturating_sub(keys.opened_at);
        if age < Duration::from_millis(KEY_AGE_MAX_MS) { keys.damaged } else { 0 }
    }

    fn not_remembered(&self, failed: Failed) -> Refusal {
        match failed {
            Failed::Reused => Refusal::Reused,
            Failed::Io(error) => self.refusal(&error),
        }
    }
}

/// Checks a file in the queue's directory; `None` when it is none of keys.
///
/// # Errors
/// What the operating system says.
pub(crate) fn check(doors: &Doors, path: &Path, may_have_lost_writes: bool) -> std::io::Result<Option<KeyNotes>> {
    let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".keys")?.parse::<Id>().ok());
    let Some(id) = name else { return Ok(None) };
    scan(&*doors.fs.open(path)?, id, may_have_lost_writes, &mut |_| {}).map(Some)
}

/// The keys of the last day, in memory and on disk.
#[derive(Debug)]
pub(crate) struct Keys {
    log: Log,
    known: Memory,
    /// Notes that could not be read at the start, and the uptime then.
    damaged: u64,
    opened_at: Duration,
}

/// Why a section is not numbered.
#[derive(Debug)]
enum Failed {
    Reused,
    Io(std::io::Error),
}

#[derive(Debug)]
struct Memory {
    keys_max: usize,
    sections_max: usize,
    batches: HashMap<u64, Known>,
    /// The producers of the sections behind the first, of batches that have more than one.
    more: HashMap<u64, Vec<Producer>>,
    /// In the order in which they were first seen here.
    order: VecDeque<(Millis, u64)>,
    more_sections: usize,
}

/// What is remembered of a batch.
#[derive(Debug)]
struct Known {
    base: Millis,
    first: Producer,
    /// Whether it is known where the batch ends. Of one that was torn, it is not.
    is_whole: bool,
}

/// What a section is to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    Known,
    New,
    /// Its batch was forgotten while it came in.
    Late,
    Reused,
}

impl Keys {
    /// Nothing is known yet.
    pub(crate) fn new(doors: Doors, dir: std::path::PathBuf, config: &Config) -> Self {
        let opened_at = doors.clock.uptime();
        let known = Memory::new(config.keys_max, config.key_sections_max);
        Self { log: Log::new(doors, dir), known, damaged: 0, opened_at }
    }

    /// The time of a batch that begins.
    fn base(&mut self, batch: &Batch, now: Millis) -> Millis {
        self.known.forget(now);
        // What is known comes first: while a key gets too old, or its time comes near, its batch stays where it was.
        let known = self.known.batches.get(&batch.key).map(|known| known.base);
        known.or_else(|| stated(batch.stated?, now)).unwrap_or(now)
    }

    /// Compares a section with what is known, and takes note of it.
    fn take(&mut self, entry: Entry) -> Result<(), Failed> {
        match self.known.fits(&entry) {
            Fits::Known | Fits::Late => Ok(()),
            Fits::Reused => Err(Failed::Reused),
            Fits::New => {
                // On disk first: what is remembered must not be less after a restart.
                self.log.append(&entry, &self.known).map_err(Failed::Io)?;
                self.known.note(&entry);
                self.known.forget(entry.seen);
                Ok(())
            }
        }
    }

    fn begin_sync(&mut self) -> std::io::Result<log::Sync> {
        self.log.begin_sync(&self.known)
    }
}

impl Memory {
    /// Remembers at most `keys_max` keys, and at most `sections_max` sections behind the first of their batch.
    fn new(keys_max: usize, sections_max: usize) -> Self {
        let (batches, more, order) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Self { keys_max, sections_max, batches, more, order, more_sections: 0 }
    }

    fn fits(&self, entry: &Entry) -> Fits {
        let Some(known) = self.batches.get(&entry.key) else {
            return if entry.number == 0 { Fits::New } else { Fits::Late };
        };
        let more = self.more_of(entry.key);
        let (sections, number) = (1 + more.len(), entry.number as usize);
        if known.base != entry.base {
            return Fits::Reused;
        }
        let producer = number.checked_sub(1).map_or(Some(known.first), |at| more.get(at).copied());
        match producer {
            Some(producer) if producer != entry.producer => Fits::Reused,
            // Shorter than what is known.
            Some(_) if entry.is_last && number + 1 < sections => Fits::Reused,
            Some(_) if entry.is_last && !known.is_whole => Fits::New,
            Some(_) => Fits::Known,
            // Longer than what is known to be the whole.
            None if known.is_whole || number > sections => Fits::Reused,
            None => Fits::New,
        }
    }

    fn note(&mut self, entry: &Entry) {
        match self.batches.get_mut(&entry.key) {
            None => {
                let Entry { base, producer, is_last, .. } = *entry;
                self.batches.insert(entry.key, Known { base, first: producer, is_whole: is_last });
                self.order.push_back((entry.seen, entry.key));
            }
            Some(known) => {
                known.is_whole |= entry.is_last;
                if entry.number as usize > self.more_of(entry.key).len() {
                    self.more.entry(entry.key).or_default().push(entry.producer);
                    self.more_sections += 1;
                }
            }
        }
    }

    /// Takes note of what was found on disk.
    fn recall(&mut self, entry: &Entry) {
        match self.fits(entry) {
            Fits::New => self.note(entry),
            // The key was forgotten and used again.
            Fits::Reused if entry.number == 0 => {
                self.order.retain(|(_, key)| *key != entry.key);
                self.drop_batch(entry.key);
                self.note(entry);
            }
            _ => {}
        }
        // No more is held than at any other time.
        self.forget(Millis(0));
    }

    fn forget(&mut self, now: Millis) {
        while let Some((seen, key)) = self.order.front().copied() {
            let is_too_much = self.order.len() > self.keys_max || self.more_sections > self.sections_max;
            if !is_too_much && now.0.saturating_sub(seen.0) <= KEY_AGE_MAX_MS {
                break;
            }
            self.drop_batch(key);
            self.order.pop_front();
        }
    }

    fn drop_batch(&mut self, key: u64) {
        self.batches.remove(&key);
        self.more_sections -= self.more.remove(&key).map_or(0, |more| more.len());
    }

    fn more_of(&self, key: u64) -> &[Producer] {
        self.more.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many entries tell all that is remembered.
    fn entries_len(&self) -> usize {
        self.batches.len() + self.more_sections
    }

    /// All that is remembered, in the order in which it was seen.
    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.order.iter().flat_map(|(seen, key)| {
            let more = self.more_of(*key);
            self.batches.get(key).into_iter().flat_map(move |known| {
                let producers = std::iter::once(known.first).chain(more.iter().copied());
                (0_u32..).zip(producers).map(move |(number, producer)| Entry {
                    key: *key,
                    number,
                    base: known.base,
                    producer,
                    is_last: known.is_whole && number as usize == more.len(),
                    seen: *seen,
                })
            })
        })
    }
}

/// The time that a key carries, unless it is too far from now: a key must not put records at times at which they are not
/// looked for.
fn stated(at: Millis, now: Millis) -> Option<Millis> {
    let (_, is_ahead) = at.not_ahead_of(now);
    (!is_ahead && at >= now.minus(STATED_AGE_MAX_MS)).then_some(at)
}

#[cfg(test)]
mod tests;
