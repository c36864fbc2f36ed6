//! What a segment or block reaches over: enough to know that a query need not open it, and that two of them cannot hold
//! the same record.

use bucksaw_record::{Id, Millis, Producer};

use crate::Rows;
use crate::varint::{Reader, put};

/// Sequence numbers by producer are kept up to this many producers; beyond, any record may be in there.
const PRODUCERS_MAX: usize = 256;

/// A producer, and its lowest and highest sequence number.
type Sequences = (Producer, u32, u32);

/// The span of some records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The lowest id; above `high` when there are no records.
    pub low: Id,
    /// The highest id.
    pub high: Id,
    /// How many records.
    pub records: u64,
    /// Bytes of text, an LF after each record.
    pub text_bytes: u64,
    /// The latest moment at which a node took one of them.
    pub accepted: Millis,
    /// By producer; `None` when there are too many. A list, because every block of every stored segment has one in memory, and
    /// a tree takes 200 bytes for a single producer.
    producers: Option<Vec<Sequences>>,
}

impl Default for Reach {
    fn default() -> Self {
        let producers = Some(Vec::new());
        Self { low: Id::MAX, high: Id::MIN, records: 0, text_bytes: 0, accepted: Millis(0), producers }
    }
}

impl Reach {
    /// The newest of the records' times and of their arrivals: what retention goes by.
    #[must_use]
    pub fn newest(&self) -> Millis {
        self.high.at().max(self.accepted)
    }

    /// Takes records in.
    pub fn add(&mut self, rows: &Rows, text_bytes: usize) {
        if let Some((low, high)) = rows.span() {
            self.low = self.low.min(low);
            self.high = self.high.max(high);
        }
        self.records += u64::from(rows.count);
        self.text_bytes += text_bytes as u64;
        self.accepted = self.accepted.max(rows.accepted);
        for run in &rows.runs {
            self.add_sequence(run.first.producer(), run.first.sequence(), run.last().sequence());
        }
    }

    /// Takes in what another reaches over.
    pub fn join(&mut self, other: &Self) {
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
        match place(ranges, producer) {
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
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether a record of the span `low..=high` may be among them.
    #[must_use]
    pub fn overlaps(&self, low: Id, high: Id) -> bool {
        self.low <= high && low <= self.high
    }

    /// Whether the same record may be in both. Never wrongly `false`.
    #[must_use]
    pub fn may_share(&self, other: &Self) -> bool {
        if !self.overlaps(other.low, other.high) {
            return false;
        }
        let (Some(mine), Some(others)) = (&self.producers, &other.producers) else { return true };
        let (few, many) = if mine.len() <= others.len() { (mine, others) } else { (others, mine) };
        few.iter().any(|(producer, low, high)| {
            let other = place(many, *producer).ok().and_then(|at| many.get(at));
            other.is_some_and(|(_, other_low, other_high)| low <= other_high && other_low <= high)
        })
    }

    /// How many producers are kept.
    #[must_use]
    pub fn producers(&self) -> usize {
        self.producers.as_ref().map_or(0, Vec::len)
    }

    /// Bytes of memory that it takes besides its own size.
    pub(crate) fn memory(&self) -> usize {
        self.producers.as_ref().map_or(0, |producers| producers.capacity() * size_of::<Sequences>())
    }

    /// Whether a record of this producer may be among them.
    #[must_use]
    pub fn may_hold(&self, producer: Producer) -> bool {
        self.producers.as_ref().is_none_or(|ranges| place(ranges, producer).is_ok())
    }

    /// ```text
    ///   16 low · 16 high · varint records · varint text bytes · varint accepted ms
    ///   varint 0: too many producers; else their number + 1, and for each: varint producer, varint low, varint high
    /// ```
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.low.bits().to_le_bytes());
        out.extend_from_slice(&self.high.bits().to_le_bytes());
        put(out, self.records);
        put(out, self.text_bytes);
        put(out, self.accepted.0);
        let Some(ranges) = &self.producers else { return put(out, 0) };
        put(out, ranges.len() as u64 + 1);
        for (producer, low, high) in ranges {
            put(out, producer.bits());
            put(out, u64::from(*low));
            put(out, u64::from(*high));
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let mut reach = Self {
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
            // They are written in this order, each once.
            if !ranges.is_sorted_by(|(one, ..), (next, ..)| one < next) {
                return None;
            }
            reach.producers = Some(ranges);
        }
        Some(reach)
    }
}

/// Where a producer is, or would be.
fn place(ranges: &[Sequences], producer: Producer) -> Result<usize, usize> {
    ranges.binary_search_by_key(&producer, |(known, ..)| *known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(producer: u64, sequence: u32, count: u32, ms: u64) -> Reach {
        let mut rows = Rows { accepted: Millis(ms), ..Rows::default() };
        rows.push_run(Id::new(Millis(ms), Producer::new(producer), sequence), count);
        let mut reach = Reach::default();
        reach.add(&rows, 10);
        reach
    }

    #[test]
    fn records_are_shared_only_where_time_producer_and_sequence_meet() {
        let check = |a: Reach, b: Reach, want| {
            assert_eq!((a.may_share(&b), b.may_share(&a)), (want, want), "{a:?} {b:?}");
        };
        check(reach(1, 0, 5, 9), reach(1, 4, 5, 9), true);
        check(reach(1, 0, 5, 9), reach(1, 5, 5, 9), false);
        check(reach(1, 0, 5, 9), reach(2, 0, 5, 9), false);
        check(reach(1, 0, 5, 9), reach(1, 0, 5, 8), false);
        let mut crowd = Reach::default();
        (0..PRODUCERS_MAX as u64).for_each(|producer| crowd.join(&reach(producer, 0, 1, 9)));
        check(crowd.clone(), reach(9_999, 0, 1, 9), false);
        crowd.join(&reach(10_000, 0, 1, 9));
        check(crowd, reach(9_999, 0, 1, 9), true);
    }

    #[test]
    fn bytes_come_back() {
        let mut one = reach(1, 0, 5, 9);
        one.join(&reach(7, 3, 2, 11));
        let mut out = Vec::new();
        one.encode(&mut out);
        let mut reader = Reader(&out);
        assert_eq!(Reach::decode(&mut reader), Some(one));
        assert!(reader.is_empty());
        assert_eq!(Reach::decode(&mut Reader(&out[..out.len() - 1])), None);
    }
}
