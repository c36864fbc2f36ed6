//! Time ranges that repair compares at once: small enough that the ids fit into memory and one message, and that a segment of
//! the records is sent quickly.

use bucksaw_record::{Id, Millis};

/// A span of time, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimeRange {
    pub(crate) from: Millis,
    pub(crate) to: Millis,
}

/// The time range and size of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockExtent {
    /// The times of its first and its last record.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Its size as a fraction of the maximum range.
    pub(crate) weight: f64,
}

impl TimeRange {
    pub(crate) const ALL: Self = Self { from: Millis(0), to: Millis(Millis::MAX.0 + 1) };

    pub(crate) fn is_empty(self) -> bool {
        self.from >= self.to
    }

    pub(crate) fn contains(self, id: Id) -> bool {
        self.from <= id.time() && id.time() < self.to
    }

    /// Whether it may have records of `low..=high`.
    pub(crate) fn overlaps(self, low: Id, high: Id) -> bool {
        self.from <= high.time() && low.time() < self.to
    }

    /// The newer half; `None` for a single millisecond.
    pub(crate) fn newer_half(self) -> Option<Self> {
        let span = self.to.0.saturating_sub(self.from.0);
        (span > 1).then(|| Self { from: Millis(self.from.0 + span / 2), to: self.to })
    }
}

/// The newest range within `within` that has records and does not exceed the maximum; `None` without records.
pub(crate) fn newest_range(extents: &[BlockExtent], within: TimeRange) -> Option<TimeRange> {
    if within.is_empty() {
        return None;
    }
    let inside = |extent: &&BlockExtent| extent.low < within.to.0 && extent.high >= within.from.0;
    let touching: Vec<BlockExtent> = extents.iter().filter(inside).copied().collect();
    let last = touching.iter().map(|extent| extent.high).max()?.min(within.to.0 - 1);
    let first = touching.iter().map(|extent| extent.low).min()?.max(within.from.0);
    // Binary search for the earliest start within the maximum: the weight grows with the range.
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = low + (high - low) / 2;
        let weight: f64 = touching.iter().map(|extent| extent.fraction_in(middle, last) * extent.weight).sum();
        if weight <= 1.0 {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(TimeRange { from: Millis(low), to: Millis(last + 1) })
}

impl BlockExtent {
    /// The fraction of it in `from..=to`, assuming evenly distributed records.
    pub(crate) fn fraction_in(&self, from: u64, to: u64) -> f64 {
        let (low, high) = (self.low.max(from), self.high.min(to));
        if low > high {
            return 0.0;
        }
        (high - low + 1) as f64 / (self.high - self.low + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(from: u64, to: u64) -> TimeRange {
        TimeRange { from: Millis(from), to: Millis(to) }
    }

    fn extent(low: u64, high: u64, weight: f64) -> BlockExtent {
        BlockExtent { low, high, weight }
    }

    #[test]
    fn sparse_ranges_are_long() {
        let few = [extent(100, 199, 0.1), extent(500, 599, 0.1)];
        assert_eq!(newest_range(&few, TimeRange::ALL), Some(range(100, 600)));
        assert_eq!(newest_range(&few, range(0, 550)), Some(range(100, 550)));
        assert_eq!(newest_range(&few, range(0, 100)), None);
        assert_eq!(newest_range(&few, range(200, 500)), None);
        assert_eq!(newest_range(&few, range(0, 300)), Some(range(100, 200)), "times without records are skipped");
        let much = [extent(0, 999, 10.0)];
        assert_eq!(newest_range(&much, TimeRange::ALL), Some(range(900, 1_000)));
        assert_eq!(
            newest_range(&[extent(7, 7, 10.0)], TimeRange::ALL),
            Some(range(7, 8)),
            "a millisecond is not divided"
        );
        assert_eq!(newest_range(&[], TimeRange::ALL), None);
        assert_eq!(newest_range(&[extent(0, Millis::MAX.0, 0.0)], TimeRange::ALL), Some(TimeRange::ALL));
    }

    proptest! {
        #[test]
        fn ranges_cover_all_records_once(
            blocks in prop::collection::vec((0_u64..500, 0_u64..200, 0.0..3.0_f64), 0..20),
            from in 0_u64..300, span in 0_u64..400,
        ) {
            let extents: Vec<BlockExtent> =
                blocks.iter().map(|(low, span, weight)| extent(*low, low + span, *weight)).collect();
            let mut left = range(from, from + span + 1);
            let mut covered = std::collections::BTreeSet::new();
            while let Some(next) = newest_range(&extents, left) {
                prop_assert!(!next.is_empty() && next.from >= left.from && next.to <= left.to);
                let whole: f64 = extents.iter().map(|extent| extent.fraction_in(next.from.0, next.to.0 - 1) * extent.weight).sum();
                prop_assert!(whole <= 1.0 + 1e-9 || next.to.0 - next.from.0 == 1);
                for at in next.from.0..next.to.0 {
                    prop_assert!(covered.insert(at));
                }
                left.to = next.from;
            }
            for extent in &extents {
                for at in extent.low.max(from)..=extent.high.min(from + span) {
                    prop_assert!(covered.contains(&at), "{at}");
                }
            }
        }
    }
}
