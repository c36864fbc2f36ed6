//! Summaries of segments and blocks, by which a query skips them and finds overlaps: a zone map.

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_record::{Id, Millis, Producer};

use crate::{FrameHeader, RowMeta, Rows};

/// Maximum number of producers with sequence ranges; above it, any record may be included.
const PRODUCERS_MAX: usize = 256;

/// A producer, and its lowest and highest sequence number.
type SequenceRange = (Producer, u32, u32);

/// A summary of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSummary {
    /// The lowest id; above `high` without records.
    pub low: Id,
    /// The highest id.
    pub high: Id,
    /// Number of records.
    pub records: u64,
    /// Bytes of text, with an LF per record.
    pub text_bytes: u64,
    /// The latest arrival at a node.
    pub accepted: Millis,
    /// Sequence ranges by producer; `None` above the maximum. A sorted list, because the summaries of all blocks are in memory,
    /// and a tree takes 200 bytes for a single producer.
    producers: Option<Vec<SequenceRange>>,
}

impl Default for RecordSummary {
    fn default() -> Self {
        let producers = Some(Vec::new());
        Self { low: Id::MAX, high: Id::MIN, records: 0, text_bytes: 0, accepted: Millis(0), producers }
    }
}

impl RecordSummary {
    /// The summary of records about which only the range of their ids, both inclusive, and estimates are known.
    pub fn of_range(low: Id, high: Id, records: u64, text_bytes: u64) -> Self {
        Self { low, high, records, text_bytes, accepted: Millis::MAX, producers: None }
    }

    /// The latest time or arrival of a record, by which retention decides.
    pub fn newest(&self) -> Millis {
        self.high.time().max(self.accepted)
    }

    /// Adds records.
    pub fn add(&mut self, rows: &Rows, text_bytes: usize) {
        if let Some((low, high)) = rows.id_range() {
            self.low = self.low.min(low);
            self.high = self.high.max(high);
        }
        self.records += u64::from(rows.count);
        self.text_bytes += text_bytes as u64;
        self.accepted = self.accepted.max(rows.accepted);
        for run in &rows.runs {
            self.add_sequence(run.first_id.producer(), run.first_id.sequence(), run.last().sequence());
        }
    }

    /// Adds the records of a frame, of which only the times are decoded. Without effect if they are damaged.
    pub fn add_frame(&mut self, header: &FrameHeader, row_meta: &[u8]) {
        let first = header.first_id;
        let Some((low, high)) = RowMeta::id_range(header.layout_bits, row_meta, first, header.count) else { return };
        let last = first.sequence().saturating_add(header.count - 1);
        self.merge(&Self {
            low,
            high,
            records: u64::from(header.count),
            text_bytes: u64::from(header.text_len()),
            accepted: header.accepted,
            producers: Some(vec![(first.producer(), first.sequence(), last)]),
        });
    }

    /// Adds the records of another summary.
    pub fn merge(&mut self, other: &Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.records += other.records;
        self.text_bytes += other.text_bytes;
        self.accepted = self.accepted.max(other.accepted);
        match &other.producers {
            None => self.producers = None,
            Some(ranges) => ranges.iter().for_each(|(producer, low, high)| self.add_sequence(*producer, *low, *high)),
        }
    }

    fn add_sequence(&mut self, producer: Producer, low: u32, high: u32) {
        let Some(ranges) = &mut self.producers else { return };
        match producer_position(ranges, producer) {
            Ok(at) => {
                if let Some((_, known_low, known_high)) = ranges.get_mut(at) {
                    (*known_low, *known_high) = (low.min(*known_low), high.max(*known_high));
                }
            }
            Err(_) if ranges.len() == PRODUCERS_MAX => self.producers = None,
            Err(at) => ranges.insert(at, (producer, low, high)),
        }
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether it may include a record of `low..=high`.
    pub fn overlaps(&self, low: Id, high: Id) -> bool {
        self.low <= high && low <= self.high
    }

    /// Whether both may include the same record. `false` is always right.
    pub fn may_intersect(&self, other: &Self) -> bool {
        if !self.overlaps(other.low, other.high) {
            return false;
        }
        let (Some(mine), Some(others)) = (&self.producers, &other.producers) else { return true };
        let (few, many) = if mine.len() <= others.len() { (mine, others) } else { (others, mine) };
        few.iter().any(|(producer, low, high)| {
            let other = producer_position(many, *producer).ok().and_then(|at| many.get(at));
            other.is_some_and(|(_, other_low, other_high)| low <= other_high && other_low <= high)
        })
    }

    /// Number of producers with sequence ranges.
    pub fn producer_count(&self) -> usize {
        self.producers.as_ref().map_or(0, Vec::len)
    }

    /// Bytes of memory besides its own size.
    pub(crate) fn memory(&self) -> usize {
        self.producers.as_ref().map_or(0, |producers| producers.capacity() * size_of::<SequenceRange>())
    }

    /// Whether it may include a record of this producer.
    pub fn may_contain_producer(&self, producer: Producer) -> bool {
        self.producers.as_ref().is_none_or(|ranges| producer_position(ranges, producer).is_ok())
    }

    /// ```text
    ///   16 low · 16 high · varint records · varint text bytes · varint accepted ms
    ///   varint 0: too many producers; else their number + 1, and for each: varint producer, varint low, varint high
    /// ```
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.low.bits().to_le_bytes());
        out.extend_from_slice(&self.high.bits().to_le_bytes());
        put_varint(out, self.records);
        put_varint(out, self.text_bytes);
        put_varint(out, self.accepted.0);
        let Some(ranges) = &self.producers else { return put_varint(out, 0) };
        put_varint(out, ranges.len() as u64 + 1);
        for (producer, low, high) in ranges {
            put_varint(out, producer.bits());
            put_varint(out, u64::from(*low));
            put_varint(out, u64::from(*high));
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        let mut summary = Self {
            low: Id::from_bits(reader.u128()?),
            high: Id::from_bits(reader.u128()?),
            records: reader.varint()?,
            text_bytes: reader.varint()?,
            accepted: Millis(reader.varint()?),
            producers: None,
        };
        if let Some(known) = (reader.varint()? as usize).checked_sub(1) {
            if known > PRODUCERS_MAX {
                return None;
            }
            let mut ranges = Vec::with_capacity(known);
            for _ in 0..known {
                ranges.push((Producer::new(reader.varint()?), reader.varint_u32()?, reader.varint_u32()?));
            }
            // Producers ascend.
            if !ranges.is_sorted_by(|(one, ..), (next, ..)| one < next) {
                return None;
            }
            summary.producers = Some(ranges);
        }
        Some(summary)
    }
}

/// The index of a producer, or of its place.
fn producer_position(ranges: &[SequenceRange], producer: Producer) -> Result<usize, usize> {
    ranges.binary_search_by_key(&producer, |(known, ..)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(producer: u64, sequence: u32, count: u32, ms: u64) -> RecordSummary {
        let mut rows = Rows { accepted: Millis(ms), ..Rows::default() };
        rows.push_run(Id::new(Millis(ms), Producer::new(producer), sequence), count);
        let mut summary = RecordSummary::default();
        summary.add(&rows, 10);
        summary
    }

    #[test]
    fn summaries_intersect_only_where_time_producer_and_sequence_do() {
        let check = |a: RecordSummary, b: RecordSummary, want| {
            assert_eq!((a.may_intersect(&b), b.may_intersect(&a)), (want, want), "{a:?} {b:?}");
        };
        check(summary(1, 0, 5, 9), summary(1, 4, 5, 9), true);
        check(summary(1, 0, 5, 9), summary(1, 5, 5, 9), false);
        check(summary(1, 0, 5, 9), summary(2, 0, 5, 9), false);
        check(summary(1, 0, 5, 9), summary(1, 0, 5, 8), false);
        let mut crowd = RecordSummary::default();
        (0..PRODUCERS_MAX as u64).for_each(|producer| crowd.merge(&summary(producer, 0, 1, 9)));
        check(crowd.clone(), summary(9_999, 0, 1, 9), false);
        crowd.merge(&summary(10_000, 0, 1, 9));
        check(crowd, summary(9_999, 0, 1, 9), true);
    }

    #[test]
    fn bytes_round_trip() {
        let mut one = summary(1, 0, 5, 9);
        one.merge(&summary(7, 3, 2, 11));
        let mut out = Vec::new();
        one.encode(&mut out);
        let mut reader = ByteReader(&out);
        assert_eq!(RecordSummary::decode(&mut reader), Some(one));
        assert!(reader.is_empty());
        assert_eq!(RecordSummary::decode(&mut ByteReader(&out[..out.len() - 1])), None);
    }

    #[test]
    fn a_stated_number_of_producers_above_the_maximum_is_damage() {
        let mut full = RecordSummary::default();
        (0..PRODUCERS_MAX as u64).for_each(|producer| full.merge(&summary(producer, 0, 1, 9)));
        let mut out = Vec::new();
        full.encode(&mut out);
        assert_eq!(RecordSummary::decode(&mut ByteReader(&out)), Some(full));
        let mut head = Vec::new();
        RecordSummary::default().encode(&mut head);
        // Without its last byte, which states that no producer follows.
        head.pop();
        for stated in [PRODUCERS_MAX as u64 + 1, 1 << 40, u64::MAX - 1] {
            let mut bytes = head.clone();
            put_varint(&mut bytes, stated + 1);
            bytes.extend_from_slice(&[1; 64]);
            assert_eq!(RecordSummary::decode(&mut ByteReader(&bytes)), None, "{stated}");
        }
    }
}
