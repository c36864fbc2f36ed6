//! Limits the memory for the index of pending segments.
//!
//! A segment of one stream takes 1.4 KB. Without a store and with little traffic, each append slot would close a segment
//! every few seconds, for days. Therefore, from half of the memory on, segments are closed by size only. When all of it is
//! used, nothing is accepted until stores have fetched some segments; active segments are then closed by age again, because
//! stores fetch only closed ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::segment::{QueueSegment, SegmentContents};

/// Memory of a segment without its streams, producers and frames, in bytes; measured.
const SEGMENT_BYTES: u64 = 1_400;

/// Memory of a producer, and of a frame position, in bytes.
const PRODUCER_BYTES: u64 = 48;
const FRAME_POSITION_BYTES: u64 = 48;

/// Whether the memory is used up.
#[derive(Debug, Default)]
pub(crate) struct QueueIndexMemory {
    is_half: AtomicBool,
    is_full: AtomicBool,
}

impl QueueIndexMemory {
    /// Whether active segments are closed by age.
    pub(crate) fn closes_by_age(&self) -> bool {
        !self.is_half.load(Ordering::Relaxed) || self.is_full()
    }

    /// Whether the index takes all of its memory: nothing is accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Adds up the memory of all segments and compares it with its limit. Returns the sum in bytes.
    pub(crate) fn update(&self, segments: &[Arc<QueueSegment>], bytes_max: u64) -> u64 {
        let bytes: u64 = segments.iter().map(|segment| segment_index_bytes(&segment.contents())).sum();
        self.is_half.store(bytes > bytes_max / 2, Ordering::Relaxed);
        // Seven eighths must be reached to leave the full state, so that it does not flap.
        let limit = if self.is_full() { bytes_max - bytes_max / 8 } else { bytes_max };
        self.is_full.store(bytes > limit, Ordering::Relaxed);
        bytes
    }
}

/// Memory of the index of a segment, in bytes.
fn segment_index_bytes(contents: &SegmentContents) -> u64 {
    let producers = contents.reach.producer_count() as u64 * PRODUCER_BYTES;
    let positions = contents.salvaged_frames.as_ref().map_or(0, |positions| positions.len() as u64);
    SEGMENT_BYTES + contents.stream_bytes + producers + positions * FRAME_POSITION_BYTES
}
