//! Offsets before which all records have their durability.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the frames of a batch that do not have their durability yet. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchAcks(Arc<AckCounts>);

#[derive(Debug, Default)]
struct AckCounts {
    pending: AtomicUsize,
    has_failed: AtomicBool,
}

impl BatchAcks {
    /// Adds a frame that is about to be appended.
    pub(crate) fn begin(&self) {
        self.0.pending.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a frame: it has its durability, or cannot get it, or was not appended.
    pub(crate) fn end(&self, is_ok: bool) {
        if !is_ok {
            self.0.has_failed.store(true, Ordering::Release);
        }
        self.0.pending.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether all frames have their durability; `None` if one waits for it.
    fn outcome(&self) -> Option<bool> {
        (self.0.pending.load(Ordering::Acquire) == 0).then(|| !self.0.has_failed.load(Ordering::Acquire))
    }
}

/// A partition, as long as the group assigns it without interruption.
pub(crate) type AssignmentNumber = u64;

/// The offset of the next message of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextOffset {
    pub(crate) assignment: AssignmentNumber,
    pub(crate) offset: i64,
}

/// Records of a batch could not get their durability, so it is unknown whether they are stored. They must be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("records could not be synced or replicated")]
pub(crate) struct DurabilityLost;

/// Appended batches that wait for their durability, oldest first.
#[derive(Debug, Default)]
pub(crate) struct CommitTracker {
    waiting: VecDeque<(BatchAcks, Vec<NextOffset>)>,
}

impl CommitTracker {
    /// Adds an appended batch and the offsets behind its last messages.
    pub(crate) fn push(&mut self, acks: BatchAcks, offsets: Vec<NextOffset>) {
        self.waiting.push_back((acks, offsets));
    }

    /// Whether no batch waits.
    pub(crate) fn is_settled(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives the offsets of batches that have their durability to `store`, in order. It stops at the first that has not: an
    /// offset is only safe when all records before it are.
    ///
    /// # Errors
    /// [`DurabilityLost`]; the offsets of that batch and of later ones are never given.
    pub(crate) fn settle(&mut self, mut store: impl FnMut(NextOffset)) -> Result<(), DurabilityLost> {
        while let Some((acks, _)) = self.waiting.front() {
            match acks.outcome() {
                None => return Ok(()),
                Some(false) => return Err(DurabilityLost),
                Some(true) => {}
            }
            let Some((_, offsets)) = self.waiting.pop_front() else { return Ok(()) };
            offsets.into_iter().for_each(&mut store);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(frames: usize) -> BatchAcks {
        let acks = BatchAcks::default();
        (0..frames).for_each(|_| acks.begin());
        acks
    }

    #[test]
    fn offsets_are_stored_in_order_once_all_frames_before_them_are_durable() {
        let (mut tracker, batches) = (CommitTracker::default(), [batch(2), batch(1), batch(0)]);
        for (offset, acks) in (1..).zip(&batches) {
            tracker.push(acks.clone(), vec![NextOffset { assignment: 0, offset }]);
        }
        let mut settled = || {
            let mut offsets = Vec::new();
            (tracker.settle(|next| offsets.push(next.offset)), offsets)
        };
        let [first, second, _] = &batches;
        second.end(true);
        first.end(true);
        assert_eq!(settled(), (Ok(()), vec![]));
        first.end(true);
        assert_eq!(settled(), (Ok(()), vec![1, 2, 3]));
    }

    #[test]
    fn nothing_is_stored_from_a_failure_on() {
        let (mut tracker, first, second) = (CommitTracker::default(), batch(1), batch(1));
        for (offset, acks) in (1..).zip([&first, &second]) {
            tracker.push(acks.clone(), vec![NextOffset { assignment: 0, offset }]);
        }
        first.end(false);
        second.end(true);
        for _ in 0..2 {
            assert_eq!(tracker.settle(|next| panic!("{next:?}")), Err(DurabilityLost));
        }
        assert!(!tracker.is_settled());
    }
}
