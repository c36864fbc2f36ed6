//! How far the batches of one source are acknowledged, while several sources share the send window.
//!
//! A source numbers its batches and pushes them in order. Each batch in the window has a ticket of its source, so an
//! acknowledgement reaches the source without a list of which batch is whose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the batches of one source are acknowledged. Clones are the same source.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceAcks(Arc<AtomicU64>);

/// The place of a batch among those of its source.
#[derive(Clone, Debug)]
pub(crate) struct BatchTicket {
    source: SourceAcks,
    number: u64,
    /// Whether an acknowledgement of the batch is one of its number. Several batches may have one number.
    is_last: bool,
}

impl SourceAcks {
    /// All batches of the source with numbers below this one are acknowledged, if it was not 0.
    pub(crate) fn next_unacked(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The ticket of a batch. The last batch of a number is pushed behind the others.
    pub(crate) fn ticket(&self, number: u64, is_last: bool) -> BatchTicket {
        BatchTicket { source: self.clone(), number, is_last }
    }
}

impl BatchTicket {
    /// Records the acknowledgement of the batch, and of all before it.
    pub(crate) fn ack(&self) {
        let next = self.number + u64::from(self.is_last);
        self.source.0.fetch_max(next, Ordering::AcqRel);
    }

    /// Whether the batch is of this source and before this number.
    pub(crate) fn is_before(&self, source: &SourceAcks, number: u64) -> bool {
        Arc::ptr_eq(&self.source.0, &source.0) && self.number < number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_acknowledged_with_its_last_batch() {
        let (source, other) = (SourceAcks::default(), SourceAcks::default());
        source.ticket(7, false).ack();
        assert_eq!(source.next_unacked(), 7);
        let last = source.ticket(7, true);
        last.ack();
        assert_eq!((source.next_unacked(), other.next_unacked()), (8, 0));
        source.ticket(3, true).ack();
        assert_eq!(source.next_unacked(), 8);
        assert!(last.is_before(&source, 8) && !last.is_before(&source, 7) && !last.is_before(&other, 8));
    }
}
