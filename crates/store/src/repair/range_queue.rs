//! The queue of ranges to compare, some of them deferred.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::Millis;

use super::id_set::IdSet;
use super::status::RepairBlocker;
use super::time_range::TimeRange;

/// Maximum number of ranges; above it, the nearest are merged.
const RANGES_MAX: usize = 64;

/// A range to compare.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingRange {
    pub(crate) range: TimeRange,
    /// Only these records, if given.
    pub(crate) only_ids: Option<Arc<IdSet>>,
    /// Not before this uptime.
    pub(crate) ready_at: Duration,
    /// Whether it is known to have under-replicated records.
    pub(crate) is_under_replicated: bool,
    /// Why it was deferred, if it was.
    pub(crate) blocked_by: Option<RepairBlocker>,
}

/// Pending ranges. Ranges without `only_ids` do not overlap or touch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RangeQueue(Vec<PendingRange>);

impl PendingRange {
    pub(crate) fn new(range: TimeRange) -> Self {
        Self { range, only_ids: None, ready_at: Duration::ZERO, is_under_replicated: false, blocked_by: None }
    }

    /// Whether this store was responsible for it before, and so finishes it: a store that became responsible since may have
    /// compared the range before.
    pub(crate) fn is_claimed(&self) -> bool {
        self.only_ids.is_some() || self.is_under_replicated
    }

    fn merge(&mut self, other: Self) {
        self.range.from = self.range.from.min(other.range.from);
        self.range.to = self.range.to.max(other.range.to);
        self.ready_at = self.ready_at.max(other.ready_at);
        self.is_under_replicated |= other.is_under_replicated;
        self.blocked_by = self.blocked_by.or(other.blocked_by);
        self.only_ids = match (self.only_ids.take(), other.only_ids) {
            (Some(mine), Some(others)) => {
                let mut all = Arc::unwrap_or_clone(mine);
                all.union_with(&others);
                Some(Arc::new(all))
            }
            // A range without `only_ids` includes every set.
            _ => None,
        };
    }

    fn touches(&self, other: &Self) -> bool {
        self.range.from <= other.range.to && other.range.from <= self.range.to
    }

    fn distance(&self, other: &Self) -> u64 {
        let (one, two) = (self.range, other.range);
        one.from.0.saturating_sub(two.to.0).max(two.from.0.saturating_sub(one.to.0))
    }
}

impl RangeQueue {
    /// All of time, beginning with `front`: the current range of the interrupted pass.
    pub(crate) fn restart(front: Option<TimeRange>) -> Self {
        let Some(front) = front.filter(|front| !front.is_empty()) else {
            return Self(vec![PendingRange::new(TimeRange::ALL)]);
        };
        let before = TimeRange { from: Millis(0), to: front.from };
        let after = TimeRange { from: front.to, to: TimeRange::ALL.to };
        Self([front, before, after].into_iter().filter(|range| !range.is_empty()).map(PendingRange::new).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingRange> {
        self.0.iter()
    }

    /// The smallest range that includes all; `None` if the queue is empty.
    pub(crate) fn bounding_range(&self) -> Option<TimeRange> {
        let (from, to) = (
            self.0.iter().map(|pending| pending.range.from).min()?,
            self.0.iter().map(|pending| pending.range.to).max()?,
        );
        Some(TimeRange { from, to })
    }

    pub(crate) fn take_ready(&mut self, now: Duration) -> Option<PendingRange> {
        let at = self.0.iter().position(|pending| pending.ready_at <= now)?;
        Some(self.0.remove(at))
    }

    pub(crate) fn put_back(&mut self, pending: PendingRange) {
        self.0.insert(0, pending);
    }

    /// Adds a range at the end, merged with those that it touches.
    pub(crate) fn add(&mut self, mut pending: PendingRange) {
        if pending.range.is_empty() {
            return;
        }
        if pending.only_ids.is_none() {
            let touches =
                |pending: &PendingRange, other: &PendingRange| other.only_ids.is_none() && other.touches(pending);
            while let Some(at) = self.0.iter().position(|other| touches(&pending, other)) {
                pending.merge(self.0.remove(at));
            }
        }
        self.0.push(pending);
        while self.0.len() > RANGES_MAX {
            self.merge_nearest();
        }
    }

    fn merge_nearest(&mut self) {
        let Some(last) = self.0.pop() else { return };
        match self.0.iter_mut().min_by_key(|pending| pending.distance(&last)) {
            Some(nearest) => nearest.merge(last),
            None => self.0.push(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::id_set::tests::ids;
    use super::*;

    fn pending(from: u64, to: u64) -> PendingRange {
        PendingRange::new(TimeRange { from: Millis(from), to: Millis(to) })
    }

    fn spans(queue: &RangeQueue) -> Vec<(u64, u64)> {
        queue.iter().map(|entry| (entry.range.from.0, entry.range.to.0)).collect()
    }

    #[test]
    fn equal_and_adjacent_ranges_are_merged() {
        let mut queue = RangeQueue::default();
        for (from, to) in [(10, 20), (10, 20), (40, 50), (50, 60), (5, 5), (15, 45)] {
            queue.add(pending(from, to));
        }
        assert_eq!(spans(&queue), [(10, 60)]);
        let some = PendingRange { only_ids: Some(Arc::new(ids(&[(1, 1)]))), ..pending(10, 60) };
        queue.add(some.clone());
        queue.add(some);
        assert_eq!(queue.iter().count(), 3, "ranges with ids of their own are not merged");
    }

    #[test]
    fn the_number_of_ranges_is_bounded_and_none_is_lost() {
        let mut queue = RangeQueue::default();
        for at in 0..1_000 {
            queue.add(pending(at * 10, at * 10 + 5));
            queue.add(PendingRange {
                only_ids: Some(Arc::new(ids(&[(1, at as u32)]))),
                ..pending(at * 10, at * 10 + 5)
            });
        }
        assert!(queue.iter().count() <= RANGES_MAX);
        for at in 0..1_000 {
            let covers = |pending: &PendingRange| {
                let has_id = pending
                    .only_ids
                    .as_ref()
                    .is_none_or(|only| only.contains(super::super::id_set::tests::id(1, at as u32)));
                has_id && pending.range.from.0 <= at * 10 && at * 10 + 5 <= pending.range.to.0
            };
            assert!(queue.iter().any(covers), "{at}");
        }
    }

    #[test]
    fn ranges_wait_until_they_are_ready() {
        let mut queue = RangeQueue::default();
        let late = PendingRange { ready_at: Duration::from_secs(5), ..pending(0, 10) };
        queue.add(late.clone());
        queue.add(pending(20, 30));
        assert_eq!(queue.take_ready(Duration::ZERO), Some(pending(20, 30)));
        assert_eq!(queue.take_ready(Duration::from_secs(4)), None);
        assert_eq!(queue.take_ready(Duration::from_secs(5)), Some(late));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_restart_continues_at_the_current_range() {
        let end = TimeRange::ALL.to.0;
        assert_eq!(spans(&RangeQueue::restart(None)), [(0, end)]);
        let at = |from, to| Some(TimeRange { from: Millis(from), to: Millis(to) });
        assert_eq!(spans(&RangeQueue::restart(at(0, 50))), [(0, 50), (50, end)]);
        assert_eq!(spans(&RangeQueue::restart(at(20, 50))), [(20, 50), (0, 20), (50, end)]);
        assert_eq!(spans(&RangeQueue::restart(at(20, end))), [(20, end), (0, 20)]);
    }
}
