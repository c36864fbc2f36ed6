//! What a start found missing, and how far it moved the state back.
//!
//! A start that misses batches moves the state of the source back to before the first of them, so that their lines are read
//! again. The snapshot after it keeps this, because a later start cannot tell it from the files: the first missing batch may
//! be acknowledged by then, with later ones, while its lines are not read again yet. A start that then moved the state back
//! only to before the second missing batch would lose the lines of the first.
//!
//! ```text
//!   to       varint          the first missing batch of that start
//!   ranges   varints, pairs  missing batches: how far the range begins behind the former one, and its length
//! ```

use std::ops::Range;

use bucksaw_binary::{ByteReader, put_varint};

use crate::entry::NUMBER_MAX;

/// Numbers of batches, as ranges in ascending order that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchRanges(Vec<Range<u64>>);

impl BatchRanges {
    pub(crate) fn extend(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        let mut all: Vec<Range<u64>> = std::mem::take(&mut self.0);
        all.extend(ranges.into_iter().filter(|range| !range.is_empty()));
        all.sort_by_key(|range| range.start);
        for range in all {
            match self.0.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.0.push(range),
            }
        }
    }

    /// The parts of a range that are not in these.
    pub(crate) fn outside(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let first = self.0.partition_point(|own| own.end <= range.start);
        let (mut parts, mut start) = (Vec::new(), range.start);
        for own in self.0.iter().skip(first).take_while(|own| own.start < range.end) {
            parts.push(start..own.start);
            start = own.end;
        }
        parts.push(start..range.end);
        parts.retain(|part| !part.is_empty());
        parts
    }

    pub(crate) fn into_ranges(self) -> Vec<Range<u64>> {
        self.0
    }

    /// Forgets the ranges below this number.
    pub(crate) fn forget_below(&mut self, number: u64) {
        self.0.retain(|range| range.end > number);
    }
}

/// What a start found missing. See the page of the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewind {
    /// The state was moved back to before this batch.
    pub(crate) to: u64,
    /// The batches that were missing, and those of earlier starts.
    pub(crate) missing: BatchRanges,
}

impl Rewind {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.to);
        let mut end = 0;
        for range in &self.missing.0 {
            put_varint(&mut out, range.start - end);
            put_varint(&mut out, range.end - range.start);
            end = range.end;
        }
        out
    }

    /// Decodes what [`Self::encode`] wrote; `None` if there is nothing, or anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(bytes);
        let (to, mut ranges, mut end) = (reader.varint()?, Vec::new(), 0_u64);
        while !reader.is_empty() {
            let start = end.checked_add(reader.varint()?)?;
            end = start.checked_add(reader.varint()?)?;
            ranges.push(start..end);
        }
        let mut missing = BatchRanges::default();
        missing.extend(ranges);
        (to.max(end) <= NUMBER_MAX + 1).then_some(Self { to, missing })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(of: &[(u64, u64)]) -> BatchRanges {
        let mut ranges = BatchRanges::default();
        ranges.extend(of.iter().map(|(start, end)| *start..*end));
        ranges
    }

    #[test]
    fn parts_outside_are_found() {
        let known = ranges(&[(8, 9), (2, 4), (3, 5), (5, 6), (7, 7)]);
        assert_eq!(known, ranges(&[(2, 6), (8, 9)]));
        let outside = |start, end| known.outside(start..end);
        assert_eq!(outside(0, 10), [0..2, 6..8, 9..10]);
        assert_eq!(outside(3, 7), vec![6..7; 1]);
        assert_eq!((outside(2, 6), outside(8, 9), outside(6, 6)), (vec![], vec![], vec![]));
        assert_eq!(outside(5, 9), vec![6..8; 1]);
        let mut later = known.clone();
        later.forget_below(6);
        assert_eq!(later, ranges(&[(8, 9)]));
    }

    proptest! {
        #[test]
        fn rewinds_round_trip(to in 0..NUMBER_MAX, of in prop::collection::vec((0..1_u64 << 40, 0_u64..99), 0..9)) {
            let missing = ranges(&of.iter().map(|(start, length)| (*start, start + length)).collect::<Vec<_>>());
            let rewind = Rewind { to, missing };
            prop_assert_eq!(Rewind::decode(&rewind.encode()), Some(rewind));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            drop(Rewind::decode(&bytes));
        }
    }
}
