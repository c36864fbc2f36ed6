//! The table of remembered keys.

use std::collections::{HashMap, VecDeque};

use bucksaw_record::{Millis, Producer};

use super::batch::IdempotentBatch;
use super::entry::KeyEntry;

/// How long a key is remembered, in milliseconds: a day.
pub(super) const KEY_AGE_MAX_MS: u64 = 24 * 3_600_000;

/// Maximum age of the time in a key, in milliseconds: a week. Longer than a client buffers batches while it reaches no node, and
/// short enough that a random number is rarely taken for a time.
pub(super) const KEY_TIME_AGE_MAX_MS: u64 = 7 * KEY_AGE_MAX_MS;

#[derive(Debug, Default)]
pub(super) struct KeyTable {
    keys_max: usize,
    sections_max: usize,
    pub(super) batches: HashMap<u64, RememberedBatch>,
    /// The producers of the sections after the first.
    later_producers: HashMap<u64, Vec<Producer>>,
    /// When each key was first seen, in that order.
    pub(super) insertion_order: VecDeque<(Millis, u64)>,
    /// How many keys were removed from the front of `insertion_order`.
    evicted_count: u64,
    later_section_count: usize,
}

#[derive(Debug)]
pub(super) struct RememberedBatch {
    base: Millis,
    first_producer: Producer,
    /// Whether the end of the batch was received.
    is_complete: bool,
}

/// A section compared with the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionStatus {
    Known,
    New,
    /// The batch was evicted while it arrived.
    Forgotten,
    Reused,
}

impl KeyTable {
    /// A table of at most `keys_max` keys, and at most `sections_max` sections after the first of their batch.
    pub(super) fn new(keys_max: usize, sections_max: usize) -> Self {
        Self { keys_max, sections_max, ..Self::default() }
    }

    /// The time of a batch at its first section.
    pub(super) fn base_time(&mut self, batch: &IdempotentBatch, now: Millis) -> Millis {
        self.evict(now);
        // A remembered time comes first, so that a retry keeps it when the time of its key is no longer valid, or only now.
        let remembered = self.batches.get(&batch.key).map(|known| known.base);
        remembered.or_else(|| valid_key_time(batch.key_time?, now)).unwrap_or(now)
    }

    pub(super) fn classify(&self, entry: &KeyEntry) -> SectionStatus {
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
            // The batch ends earlier than the remembered one.
            Some(_) if entry.is_last && number + 1 < sections => SectionStatus::Reused,
            Some(_) if entry.is_last && !known.is_complete => SectionStatus::New,
            Some(_) => SectionStatus::Known,
            // The batch is longer than the remembered one.
            None if known.is_complete || number > sections => SectionStatus::Reused,
            None => SectionStatus::New,
        }
    }

    pub(super) fn insert(&mut self, entry: &KeyEntry) {
        match self.batches.get_mut(&entry.key) {
            None => {
                let KeyEntry { base_time: base, producer: first_producer, is_last: is_complete, .. } = *entry;
                self.batches.insert(entry.key, RememberedBatch { base, first_producer, is_complete });
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

    /// Adds an entry of the key file.
    pub(super) fn restore(&mut self, entry: &KeyEntry) {
        match self.classify(entry) {
            SectionStatus::New => self.insert(entry),
            // The key was evicted and used again.
            SectionStatus::Reused if entry.number == 0 => {
                self.insertion_order.retain(|(_, key)| *key != entry.key);
                self.remove_batch(entry.key);
                self.insert(entry);
            }
            _ => {}
        }
        // Within the limits also while a file is read.
        self.evict(Millis(0));
    }

    pub(super) fn evict(&mut self, now: Millis) {
        while let Some((seen, key)) = self.insertion_order.front().copied() {
            let is_over_limit =
                self.insertion_order.len() > self.keys_max || self.later_section_count > self.sections_max;
            if !is_over_limit && now.0.saturating_sub(seen.0) <= KEY_AGE_MAX_MS {
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

    /// The number of entries in a file with all remembered keys.
    pub(super) fn entries_len(&self) -> usize {
        self.batches.len() + self.later_section_count
    }

    /// The entries of the next keys, oldest first, until there are at least `entries_max`; empty after the last. `position` counts
    /// keys, evicted ones included.
    pub(super) fn next_entries(&self, position: &mut u64, entries_max: usize) -> Vec<KeyEntry> {
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

/// The time in a key, unless it is too far from now: queries would not find the records where users expect them.
fn valid_key_time(at: Millis, now: Millis) -> Option<Millis> {
    let (_, is_ahead) = at.clamp_future(now);
    (!is_ahead && at >= now.saturating_sub(KEY_TIME_AGE_MAX_MS)).then_some(at)
}
