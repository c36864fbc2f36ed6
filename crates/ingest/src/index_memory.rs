//! Whether too many segments wait: what is known of each stays in memory.
//!
//! That is 1.4 KB for a segment of one stream. Without a store, and with little coming in, each lane would close one every
//! few seconds, for days. So from half of the memory on segments are closed by their size alone; and when all of it is
//! taken, nothing is accepted until stores have taken some. Open segments are closed by their age again then, because stores
//! take only closed ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bucksaw_record::Labels;

use crate::queue::Queue;
use crate::segment::{QueueSegment, SegmentContents};

/// What a segment takes besides its streams, its producers and its frames, in bytes; measured.
const SEGMENT_BYTES: u64 = 1_400;

/// What a stream takes besides the text of its labels, and each label besides its own: both the label and, while the
/// segment is active, its number.
const STREAM_BYTES: u64 = 160;
const LABEL_BYTES: u64 = 64;

/// What a producer takes, and a frame whose place is kept.
const PRODUCER_BYTES: u64 = 48;
const FRAME_POSITION_BYTES: u64 = 48;

/// How much of the memory is taken.
#[derive(Debug, Default)]
pub(crate) struct QueueIndexMemory {
    /// Half of it.
    is_half: AtomicBool,
    is_full: AtomicBool,
}

impl Queue {
    /// Whether too many segments wait for stores.
    pub(crate) fn has_too_many_segments(&self) -> bool {
        self.index_memory.is_full.load(Ordering::Relaxed)
    }

    /// Whether segments are closed by their size alone.
    pub(crate) fn closes_by_size_only(&self) -> bool {
        self.index_memory.is_half.load(Ordering::Relaxed)
    }

    /// Looks how much memory the segments take.
    pub(crate) fn update_index_memory(&self, segments: &[Arc<QueueSegment>]) {
        let bytes: u64 = segments.iter().map(|segment| segment_index_bytes(&segment.contents())).sum();
        self.metrics.index_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let max = self.config.index_bytes_max;
        self.index_memory.is_half.store(bytes > max / 2, Ordering::Relaxed);
        // A little less is wanted to begin again than to go on, so that the state does not flutter.
        let was = self.has_too_many_segments();
        let is = bytes > if was { max - max / 8 } else { max };
        self.index_memory.is_full.store(is, Ordering::Relaxed);
    }
}

/// Memory for what is known of a segment.
fn segment_index_bytes(contents: &SegmentContents) -> u64 {
    let producers = contents.reach.producer_count() as u64 * PRODUCER_BYTES;
    let places = contents.salvaged_frames.as_ref().map_or(0, |places| places.len()) as u64 * FRAME_POSITION_BYTES;
    SEGMENT_BYTES + contents.stream_bytes + producers + places
}

/// Memory for a stream of a segment.
pub(crate) fn stream_bytes(labels: &Labels) -> u64 {
    let label = |(name, value): (&str, &str)| LABEL_BYTES + (name.len() + value.len()) as u64;
    STREAM_BYTES + labels.iter().map(label).sum::<u64>()
}
