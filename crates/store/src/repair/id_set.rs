//! Id sets: bitmaps of sequence numbers by producer.
//!
//! A producer uses a sequence number once, so the set needs no times. A hundred thousand consecutive records take a few
//! bytes, and nearly all records are consecutive.
//!
//! ```text
//!   for each producer, ascending:   8 bytes its number · a bitmap in the portable format of Roaring
//! ```
//! (Bitmaps: <https://github.com/RoaringBitmap/RoaringFormatSpec>.)

use std::collections::BTreeMap;

use bucksaw_record::{Id, Producer};
use bucksaw_segment::IdRun;
use roaring::RoaringBitmap;

/// Maximum size of an encoded set in a message, in bytes.
pub(crate) const IDS_BYTES_MAX: usize = 16 << 20;

/// A set of records.
///
/// Invariant: no bitmap is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdSet(BTreeMap<Producer, RoaringBitmap>);

impl IdSet {
    /// Number of records.
    pub fn len(&self) -> u64 {
        self.0.values().map(RoaringBitmap::len).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains a record.
    pub fn contains(&self, id: Id) -> bool {
        self.0.get(&id.producer()).is_some_and(|sequences| sequences.contains(id.sequence()))
    }

    /// Adds `count` consecutive records from `first` on.
    pub fn add(&mut self, first: Id, count: u32) {
        let Some(more) = count.checked_sub(1) else { return };
        let last = first.sequence().saturating_add(more);
        self.0.entry(first.producer()).or_default().insert_range(first.sequence()..=last);
    }

    pub(crate) fn count_in(&self, run: &IdRun) -> u64 {
        let sequences = self.0.get(&run.first_id.producer());
        sequences.map_or(0, |sequences| sequences.range_cardinality(run.first_id.sequence()..=run.last().sequence()))
    }

    pub(crate) fn union_with(&mut self, other: &Self) {
        for (producer, sequences) in &other.0 {
            *self.0.entry(*producer).or_default() |= sequences;
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let common = self.0.iter().filter_map(|(producer, mine)| Some((*producer, mine & other.0.get(producer)?)));
        Self(common.filter(|(_, common)| !common.is_empty()).collect())
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let rest = self.0.iter().map(|(producer, mine)| match other.0.get(producer) {
            Some(others) => (*producer, mine - others),
            None => (*producer, mine.clone()),
        });
        Self(rest.filter(|(_, rest)| !rest.is_empty()).collect())
    }

    pub(crate) fn producers(&self) -> impl Iterator<Item = Producer> + '_ {
        self.0.keys().copied()
    }

    pub(crate) fn into_producers(self) -> impl Iterator<Item = (Producer, Self)> {
        self.0.into_iter().map(|(producer, sequences)| (producer, Self(BTreeMap::from([(producer, sequences)]))))
    }

    pub(crate) fn has_producer(&self, producer: Producer) -> bool {
        self.0.contains_key(&producer)
    }

    /// Encodes the set.
    pub fn encode(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for (producer, sequences) in &mut self.0 {
            sequences.optimize();
            out.extend_from_slice(&producer.bits().to_le_bytes());
            // Writing to memory cannot fail.
            let _ = sequences.serialize_into(&mut out);
        }
        out
    }

    /// Decodes a set; `None` if the bytes are invalid.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut ids = BTreeMap::new();
        let mut before = None;
        while !bytes.is_empty() {
            let (number, rest) = bytes.split_first_chunk::<8>()?;
            let number = u64::from_le_bytes(*number);
            let producer = Producer::new(number);
            if producer.bits() != number || before.replace(producer).is_some_and(|before| before >= producer) {
                return None;
            }
            bytes = rest;
            let sequences = RoaringBitmap::deserialize_from(&mut bytes).ok().filter(|found| !found.is_empty())?;
            ids.insert(producer, sequences);
        }
        Some(Self(ids))
    }
}

#[cfg(test)]
pub(crate) mod tests;
