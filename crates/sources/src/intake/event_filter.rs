//! What decides which decoded events become records.

use std::fmt::Debug;

use bucksaw_protocols::{Event, EventError};
use bucksaw_record::Labels;

/// Drops and changes events between decoders and the queue.
///
/// A sender gets the same answer for an event that is dropped as for one that is stored, so it does not send it again.
pub trait EventFilter: Debug + Send + Sync {
    /// Passes an event on to `take`, as it is or changed, or drops it, and counts that in `counts`. Equal places give equal
    /// decisions, so an event that is decoded again has the same.
    ///
    /// # Errors
    /// The [`EventError`] of `take`.
    fn filter(
        &self,
        labels: &Labels,
        event: &Event<'_>,
        place: EventPlace,
        counts: &mut FilterCounts,
        take: &mut dyn FnMut(&Event<'_>) -> Result<(), EventError>,
    ) -> Result<(), EventError>;

    /// Adds counts of events that will not be decoded again.
    fn add_counts(&self, counts: FilterCounts);
}

/// Where an event was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventPlace {
    /// The request or connection; the same for a request with a key that is sent again.
    pub source: u64,
    /// The number of the event in it.
    pub number: u64,
}

/// What a filter did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// Events that a condition excluded.
    pub dropped: u64,
    /// Events that a sample excluded.
    pub sampled_out: u64,
    /// Events with a changed line.
    pub redacted: u64,
}
