//! Limits the bytes of a queue that its consumer has not committed.

use bucksaw_ingest::{HaltReason, Queue, SegmentState};

/// A full queue accepts records again when an eighth of it is free, so that the state does not flap.
const RESUME_SHARE: u64 = 8;

/// Halts a full queue.
#[derive(Debug)]
pub(super) struct BytesLimit {
    bytes_max: u64,
    is_full: bool,
}

impl BytesLimit {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, is_full: false }
    }

    /// Whether more bytes wait than may.
    pub(super) fn is_exceeded(&self, queue: &Queue) -> bool {
        waiting_bytes(queue) > self.bytes_max
    }

    /// Makes a full queue refuse records, and one with room accept them.
    pub(super) fn update(&mut self, queue: &Queue) {
        let resume_at = self.bytes_max - self.bytes_max / RESUME_SHARE;
        let is_full = waiting_bytes(queue) > if self.is_full { resume_at } else { self.bytes_max };
        if is_full != self.is_full {
            self.is_full = is_full;
            queue.set_external_halt(is_full.then_some(HaltReason::QueueFull));
        }
    }
}

/// Bytes of segments without a commit.
fn waiting_bytes(queue: &Queue) -> u64 {
    let segments = queue.readable_segments();
    segments.iter().filter(|segment| segment.state() != SegmentState::Committed).map(|segment| segment.end()).sum()
}
