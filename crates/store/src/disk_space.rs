//! How much is written at once, by the room on the disk.
//!
//! What is gathered and merged is written before what it was made of can be removed, so it has to fit beside it. How
//! small it becomes is not known in advance. So a gathering takes half of the room, as if its text could not be packed, and
//! half as much again after each one that did not fit: until one fits, if it is of a single segment of the queue. Merges
//! take what is beyond the reserve, or a quarter of the room, which leaves gathering the rest: the queue has to become
//! smaller before the store is put in order.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::{Shortage, Space};

use crate::segment_store::{SegmentStore, StoreError};

/// The most bytes of text that a gathering takes, by what came of those before.
#[derive(Debug)]
pub(crate) struct GatherBatchSize {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl GatherBatchSize {
    pub(crate) fn new(most: u64) -> Self {
        Self { bytes: AtomicU64::new(most), bytes_max: most }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A gathering of `text_bytes` was stored. The next may be a little larger: one that is too large is written in vain.
    pub(crate) fn grow(&self, text_bytes: u64) {
        let proven = text_bytes.max(self.bytes());
        self.bytes.store(proven.saturating_add(proven.div_ceil(8)).min(self.bytes_max), Ordering::Relaxed);
    }

    /// There was no room for a gathering of `text_bytes`.
    pub(crate) fn shrink(&self, text_bytes: u64) {
        self.bytes.store((text_bytes.min(self.bytes()) / 2).max(1), Ordering::Relaxed);
    }
}

impl SegmentStore {
    fn space(&self) -> io::Result<Space> {
        self.env.fs.space(&self.dir)
    }

    /// Room on the disk; where that is not known, as much as anybody wants.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.space().map_or(u64::MAX, |space| space.free_bytes)
    }

    /// Bytes of text to take from the queues at once.
    pub(crate) fn room_for_gathering(&self) -> u64 {
        // Half of the room, because the last segment that is taken goes beyond it.
        self.config.gather_bytes_max().min(self.free_bytes() / 2).min(self.gather_batch_size.bytes()).max(1)
    }

    /// Bytes of files that may be merged at once.
    pub(crate) fn room_for_merging(&self) -> u64 {
        let (free, reserve) = (self.free_bytes(), self.config.free_bytes_min);
        (free.saturating_sub(reserve) / 2).max(free / 4)
    }

    /// Whether `text_bytes`, packed quickly, might not fit: then there is time to pack them well.
    pub(crate) fn may_not_fit(&self, text_bytes: u64) -> bool {
        self.free_bytes() < self.config.free_bytes_min.max(text_bytes).saturating_mul(2)
    }

    /// Whether the trash is worth less than its room: there is hardly more left than the queue wants to go on.
    pub(crate) fn is_disk_nearly_full(&self) -> bool {
        let reserve = self.config.free_bytes_min;
        self.free_bytes() < reserve.saturating_mul(2)
    }
}

impl StoreError {
    /// Whether it failed for want of room on the disk.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if Shortage::is_disk_full(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_halved_until_they_fit_and_grow_again() {
        let batch = GatherBatchSize::new(1_000);
        batch.shrink(1_200);
        assert_eq!(batch.bytes(), 500);
        batch.shrink(300);
        assert_eq!(batch.bytes(), 150);
        (0..20).for_each(|_| batch.shrink(100));
        assert_eq!(batch.bytes(), 1);
        batch.grow(400);
        assert_eq!(batch.bytes(), 450);
        (0..7).for_each(|_| batch.grow(1));
        assert_eq!(batch.bytes(), 1_000);
    }
}
