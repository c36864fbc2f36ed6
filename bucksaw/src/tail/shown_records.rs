//! Remembers the records that a tail has shown: each is shown once, and the tail can resume.

use std::collections::{BTreeSet, VecDeque};

use bucksaw_record::Id;

/// Ids that are remembered: more than a node buffers for a tail that falls behind, if records have 250 bytes.
const IDS_MAX: usize = 1 << 18;

/// A query resumes at least this long before the newest record, because records are accepted out of order, especially
/// by several nodes.
const MARGIN_MS: u64 = 60_000;

/// A query resumes at most this long before the newest record, if the last shown record states an earlier time. All
/// records in between are searched again.
const MARGIN_MS_MAX: u64 = 3_600_000;

/// Where a query continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumePoint {
    /// The query searches after this id. Every shown id after it is remembered.
    pub(super) after: Id,
    /// Whether the last shown record is before it, so that similar records may be missed.
    pub(super) is_limited: bool,
}

/// The last ids that were shown.
#[derive(Debug, Default)]
pub(super) struct ShownRecords {
    ids: BTreeSet<Id>,
    /// In the order in which they were shown.
    order: VecDeque<Id>,
    /// The highest id that is no longer remembered.
    forgotten: Option<Id>,
    newest: Option<Id>,
    /// The record that was shown last.
    last: Option<Id>,
    /// The first shown record of the past. Earlier ones were not requested.
    pub(super) oldest_wanted: Option<Id>,
}

impl ShownRecords {
    /// Remembers an id. False if it was known.
    pub(super) fn insert(&mut self, id: Id) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        self.newest = self.newest.max(Some(id));
        self.last = Some(id);
        if self.order.len() > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
            self.forgotten = self.forgotten.max(Some(oldest));
        }
        true
    }

    /// Ends the past: later queries find nothing before its first record.
    pub(super) fn end_past(&mut self) {
        self.oldest_wanted = self.ids.first().copied();
    }

    /// Where a query continues: at the last record that was shown, or before it; `None` if nothing was shown.
    pub(super) fn resume_after(&self) -> Option<ResumePoint> {
        let (newest, last) = (self.newest?.time(), self.last?);
        let before = |margin| Id::first_at(newest.saturating_sub(margin));
        let reach = before(MARGIN_MS).min(Id::first_at(last.time())).max(before(MARGIN_MS_MAX));
        let after = self.forgotten.max(Some(reach)).unwrap_or(reach);
        // Records before the requested past are not missed.
        let is_limited = last < after;
        Some(ResumePoint { after: self.oldest_wanted.unwrap_or(after).max(after), is_limited })
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;

    fn id(ms: u64) -> Id {
        Id::new(Millis(ms), Producer::new(1), 0)
    }

    /// A point that is not limited.
    fn point(after: Id) -> Option<ResumePoint> {
        Some(ResumePoint { after, is_limited: false })
    }

    #[test]
    fn a_query_continues_a_minute_before_the_newest_record() {
        let mut seen = ShownRecords::default();
        assert_eq!(seen.resume_after(), None);
        assert!(seen.insert(id(100_000)) && seen.insert(id(200_000)) && !seen.insert(id(200_000)));
        assert_eq!(seen.resume_after(), point(Id::first_at(Millis(140_000))));
    }

    #[test]
    fn a_query_continues_at_the_last_record_up_to_an_hour_before_the_newest() {
        let newest = 100_000_000;
        let mut shown = ShownRecords::default();
        assert!(shown.insert(id(newest)) && shown.insert(id(newest - 1_000_000)));
        assert_eq!(shown.resume_after(), point(Id::first_at(Millis(newest - 1_000_000))));
        assert!(shown.insert(id(newest - MARGIN_MS_MAX)));
        assert_eq!(shown.resume_after(), point(Id::first_at(Millis(newest - MARGIN_MS_MAX))));
        assert!(shown.insert(id(newest - MARGIN_MS_MAX - 1)));
        let after = Id::first_at(Millis(newest - MARGIN_MS_MAX));
        assert_eq!(shown.resume_after(), Some(ResumePoint { after, is_limited: true }));
        assert!(shown.insert(id(newest - 10)));
        assert_eq!(shown.resume_after(), point(Id::first_at(Millis(newest - MARGIN_MS))));
    }

    #[test]
    fn a_query_does_not_look_before_the_past_that_was_asked_for() {
        let mut shown = ShownRecords::default();
        shown.end_past();
        assert_eq!((shown.resume_after(), shown.oldest_wanted), (None, None));
        assert!(shown.insert(id(150_000)) && shown.insert(id(160_000)));
        shown.end_past();
        assert_eq!((shown.resume_after(), shown.oldest_wanted), (point(id(150_000)), Some(id(150_000))));
        // A record of an earlier time, accepted later.
        assert!(shown.insert(id(90_000)));
        assert_eq!(shown.resume_after(), point(id(150_000)));
    }

    #[test]
    fn records_that_are_not_remembered_are_not_queried_again() {
        let mut seen = ShownRecords::default();
        let numbered = |number: u32| Id::new(Millis(1_000_000), Producer::new(1), number);
        assert!((0..=u32::try_from(IDS_MAX).unwrap() + 1).all(|number| seen.insert(numbered(number))));
        assert_eq!((seen.ids.len(), seen.resume_after()), (IDS_MAX, point(numbered(1))));
        assert!(seen.insert(id(999_000)));
        assert_eq!(seen.resume_after(), Some(ResumePoint { after: numbered(2), is_limited: true }));
    }
}
