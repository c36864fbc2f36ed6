//! The records that a tail has shown, so that it shows none twice and knows where to continue.

use std::collections::{BTreeSet, VecDeque};

use bucksaw_record::Id;

/// Ids that are remembered: more than a node buffers for a tail that falls behind, if records have 250 bytes.
const IDS_MAX: usize = 1 << 18;

/// How far before the newest record a query continues: records are accepted out of order, above all those of several
/// nodes.
const MARGIN_MS: u64 = 60_000;

/// The last ids that were shown.
#[derive(Debug, Default)]
pub(super) struct ShownRecords {
    ids: BTreeSet<Id>,
    /// In the order in which they were shown.
    order: VecDeque<Id>,
    /// The highest id that is no longer remembered.
    forgotten: Option<Id>,
    newest: Option<Id>,
    /// The first record of the past that was shown: what precedes it was not asked for.
    oldest_wanted: Option<Id>,
}

impl ShownRecords {
    /// Remembers an id. False if it was known.
    pub(super) fn insert(&mut self, id: Id) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        self.newest = self.newest.max(Some(id));
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

    /// The first record of the past that was shown.
    pub(super) fn oldest_wanted(&self) -> Option<Id> {
        self.oldest_wanted
    }

    /// The id behind which a query finds what was not shown, and every id that was shown is remembered; `None` if
    /// nothing was shown.
    pub(super) fn resume_after(&self) -> Option<Id> {
        let margin = Id::first_at(self.newest?.time().saturating_sub(MARGIN_MS));
        self.forgotten.max(self.oldest_wanted).max(Some(margin))
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;

    fn id(ms: u64) -> Id {
        Id::new(Millis(ms), Producer::new(1), 0)
    }

    #[test]
    fn a_query_continues_a_minute_before_the_newest_record() {
        let mut seen = ShownRecords::default();
        assert_eq!(seen.resume_after(), None);
        assert!(seen.insert(id(200_000)) && seen.insert(id(100_000)) && !seen.insert(id(200_000)));
        assert_eq!(seen.resume_after(), Some(Id::first_at(Millis(140_000))));
    }

    #[test]
    fn a_query_does_not_look_before_the_past_that_was_asked_for() {
        let mut shown = ShownRecords::default();
        shown.end_past();
        assert_eq!((shown.resume_after(), shown.oldest_wanted()), (None, None));
        assert!(shown.insert(id(150_000)) && shown.insert(id(160_000)));
        shown.end_past();
        assert_eq!((shown.resume_after(), shown.oldest_wanted()), (Some(id(150_000)), Some(id(150_000))));
    }

    #[test]
    fn records_that_are_not_remembered_are_not_queried_again() {
        let mut seen = ShownRecords::default();
        let numbered = |number: u32| Id::new(Millis(1_000_000), Producer::new(1), number);
        assert!((0..=u32::try_from(IDS_MAX).unwrap() + 1).all(|number| seen.insert(numbered(number))));
        assert_eq!((seen.ids.len(), seen.resume_after()), (IDS_MAX, Some(numbered(1))));
    }
}
