//! How much is written at once, by the room on the disk.
//!
//! What is gathered and merged is written before what it was made of can be removed, so it has to fit beside it. How
//! small it becomes is not known in advance. So a gathering takes half of the room, as if its text could not be packed, and
//! half as much again after each one that did not fit: until one fits, if it is of a single segment of the queue. Merges
//! take what is beyond the reserve, or a quarter of the room, which leaves gathering the rest: the queue has to become
//! smaller before the store is put in order.

use std::io;

use bucksaw_env::Space;

use crate::segment_store::SegmentStore;

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
