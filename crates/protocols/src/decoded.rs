//! How many events of a body were taken.

use bucksaw_record::Labels;

use crate::{Event, EventSink};

/// The events that a decoder found in a body, by whether the sink took them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Events that the sink took.
    pub accepted: u64,
    /// Events that the sink or the decoder refused. The others are not affected.
    pub rejected: u64,
    /// Why the first of the refused events was refused.
    pub first_error: Option<String>,
}

impl Decoded {
    /// Gives an event to the sink, and counts it.
    pub(crate) fn push(&mut self, sink: &mut dyn EventSink, labels: &Labels, event: &Event<'_>) {
        match sink.push(labels, event) {
            Ok(()) => self.accepted += 1,
            Err(error) => self.reject(|| error.to_string()),
        }
    }

    /// Counts an event that is refused.
    pub(crate) fn reject(&mut self, reason: impl FnOnce() -> String) {
        self.rejected += 1;
        self.first_error.get_or_insert_with(reason);
    }
}
