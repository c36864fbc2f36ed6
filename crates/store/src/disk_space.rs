//! Limits of batches and merges by free disk space.
//!
//! The output of a batch or a merge is written before its input can be removed, and its compressed size is not known in
//! advance. A batch therefore has at most half as much text as there is free space, and its limit is halved after each
//! batch that does not fit, down to a single queue segment. A merge takes the space above the reserve or a quarter of
//! the free space, so that the queue can still shrink.

use crate::segment_store::SegmentStore;

impl SegmentStore {
    /// Free bytes on the disk; the maximum if unknown.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.env.fs.space(&self.dir).map_or(u64::MAX, |space| space.free_bytes)
    }

    /// Bytes of text to fetch for the next batch.
    pub(crate) fn room_for_gathering(&self) -> u64 {
        // Half of the free space, because the last fetched segment exceeds the limit.
        self.config.gather_bytes_max().min(self.free_bytes() / 2).min(self.gather_batch_size.bytes()).max(1)
    }

    /// Bytes of files that one merge may read.
    pub(crate) fn room_for_merging(&self) -> u64 {
        let (free, reserve) = (self.free_bytes(), self.config.free_bytes_min);
        (free.saturating_sub(reserve) / 2).max(free / 4)
    }

    /// Whether `text_bytes` might not fit on the disk with the quick codec, so that the final one is used.
    pub(crate) fn may_not_fit(&self, text_bytes: u64) -> bool {
        self.free_bytes() < self.config.free_bytes_min.max(text_bytes).saturating_mul(2)
    }

    /// Whether less than twice the reserve is free, so that the trash is emptied early.
    pub(crate) fn is_disk_nearly_full(&self) -> bool {
        self.free_bytes() < self.config.free_bytes_min.saturating_mul(2)
    }
}
