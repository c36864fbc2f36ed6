//! The segments of a store in order of their ids, and an index by which a search finds those of its range.
//!
//! A node may have tens of thousands of segments, and most searches need few. The summary of each segment is in memory of its
//! own, so reading all of them costs a cache miss per segment.

use std::ops::Deref;
use std::sync::Arc;

use bucksaw_record::Id;

use crate::stored_segment::StoredSegment;

/// A snapshot of the segments of a store, in ascending order of their lowest ids.
#[derive(Debug, Default)]
pub struct SegmentList {
    segments: Vec<Arc<StoredSegment>>,
    ids: IdRanges,
    /// Bytes of text of all segments.
    text_bytes: u64,
    /// The newest source of each segment that has any, ascending, with the position of the segment.
    newest_sources: Vec<(Id, usize)>,
    /// The number of lists before this one.
    version: u64,
}

/// The segments that may have ids of a range, and sums over all others.
#[derive(Debug)]
pub(crate) struct SegmentsInRange<'a> {
    pub(crate) segments: Vec<&'a Arc<StoredSegment>>,
    pub(crate) segments_outside: u64,
    pub(crate) text_bytes_outside: u64,
}

impl SegmentList {
    /// Sorts the segments of the list that replaces this one.
    pub(crate) fn next(&self, mut segments: Vec<Arc<StoredSegment>>) -> Self {
        segments.sort_by_key(|segment| (segment.reach().low, segment.id()));
        let sources = segments.iter().enumerate().filter_map(|(at, segment)| Some((segment.newest_source()?, at)));
        let mut newest_sources: Vec<(Id, usize)> = sources.collect();
        newest_sources.sort_unstable();
        Self {
            ids: IdRanges::new(segments.iter().map(|segment| (segment.reach().low, segment.reach().high))),
            text_bytes: segments.iter().map(|segment| segment.reach().text_bytes).sum(),
            newest_sources,
            version: self.version + 1,
            segments,
        }
    }

    /// Differs from that of every earlier list of the store since its start.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The segments that may have ids from `from` on and below `to`.
    pub(crate) fn in_range(&self, from: Id, to: Id) -> SegmentsInRange<'_> {
        let positions = self.ids.overlapping(from, to);
        let segments: Vec<_> = positions.filter_map(|at| self.segments.get(at)).collect();
        let text_bytes: u64 = segments.iter().map(|segment| segment.reach().text_bytes).sum();
        SegmentsInRange {
            segments_outside: (self.segments.len() - segments.len()) as u64,
            text_bytes_outside: self.text_bytes - text_bytes,
            segments,
        }
    }

    /// The segments with a source of at least this id.
    pub(crate) fn with_source_since(&self, id: Id) -> impl Iterator<Item = &Arc<StoredSegment>> {
        let first = self.newest_sources.partition_point(|(newest, _)| *newest < id);
        let recent = self.newest_sources.get(first..).unwrap_or_default();
        recent.iter().filter_map(|(_, at)| self.segments.get(*at))
    }
}

impl Deref for SegmentList {
    type Target = [Arc<StoredSegment>];

    fn deref(&self) -> &Self::Target {
        &self.segments
    }
}

/// Ranges of ids in ascending order of their lowest ids.
#[derive(Debug, Default)]
struct IdRanges(Vec<IdRange>);

#[derive(Debug)]
struct IdRange {
    low: Id,
    high: Id,
    /// The highest id of this range and of all before it.
    high_so_far: Id,
}

impl IdRanges {
    /// Takes the lowest and the highest id, both inclusive, of each range.
    fn new(ranges: impl Iterator<Item = (Id, Id)>) -> Self {
        let mut high_so_far = Id::MIN;
        let ranges = ranges.map(|(low, high)| {
            high_so_far = high_so_far.max(high);
            IdRange { low, high, high_so_far }
        });
        Self(ranges.collect())
    }

    /// The positions of the ranges that have ids from `from` on and below `to`, ascending.
    fn overlapping(&self, from: Id, to: Id) -> impl Iterator<Item = usize> {
        let end = self.0.partition_point(|range| range.low < to);
        let start = self.0.partition_point(|range| range.high_so_far < from);
        // Without ids between `from` and `to` the start may come after the end.
        let candidates = self.0.get(start..end).filter(|_| from < to).unwrap_or_default();
        let overlapping = (start..end).zip(candidates).filter(move |(_, range)| from <= range.high);
        overlapping.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn overlapping_ranges_are_those_of_a_scan(
            mut ranges in proptest::collection::vec((0_u128..50, 0_u128..20), 0..40),
            from in 0_u128..60,
            to in 0_u128..60,
        ) {
            ranges.sort_unstable();
            let id = Id::from_bits;
            let ranges: Vec<(Id, Id)> = ranges.into_iter().map(|(low, len)| (id(low), id(low + len))).collect();
            let (from, to) = (id(from), id(to));
            let overlaps = |(low, high): &(Id, Id)| from < to && *low < to && from <= *high;
            let scanned: Vec<usize> =
                ranges.iter().enumerate().filter(|(_, range)| overlaps(range)).map(|(at, _)| at).collect();
            let found: Vec<usize> = IdRanges::new(ranges.into_iter()).overlapping(from, to).collect();
            prop_assert_eq!(found, scanned);
        }
    }
}
