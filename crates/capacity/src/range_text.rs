//! Where the text of a range is: in the queue, in blocks that are new, or in blocks that earlier questions have decoded.
//!
//! ```text
//!   now ◄── queue ──►◄── stored ───────────────────────────────────────► start of the range
//!                     a batch of blocks is new until the first question, and again after each merge
//! ```

use crate::input::AckPoint;
use crate::planned_node::{PlannedNode, SEGMENT_TEXT_BYTES};
use crate::segment_rotation::{QUEUE_SEGMENT_BYTES, QUEUE_SEGMENT_SECONDS};

/// The age of the oldest record in the queue at which a store gathers, and the text at which it does not wait for that.
const GATHER_SECONDS: f64 = 10.0;
const GATHER_BYTES: f64 = (128_u32 << 20) as f64;

/// The least number of segments that a merge combines.
pub(crate) const MERGE_INPUTS: f64 = 4.0;

/// How often a batch is merged if at most this many are merged into one: adjacent batches are merged while as many as a merge combines
/// fit. 0 if the number is not finite.
fn merge_count(batches_max: f64) -> f64 {
    let (mut merges, mut merged) = (0.0, MERGE_INPUTS);
    while batches_max.is_finite() && merged <= batches_max {
        merges += 1.0;
        merged *= MERGE_INPUTS;
    }
    merges
}

impl PlannedNode<'_> {
    /// The mean age of the oldest record in the queue, in seconds. It grows from that of an open queue segment to that at which a
    /// store gathers, and for the time of the gather, and falls back.
    pub(crate) fn queued_seconds(&self) -> f64 {
        let rate = self.copied_mean();
        if rate <= 0.0 {
            return 0.0;
        }
        let gather = Self::batch_seconds(rate);
        let open = (QUEUE_SEGMENT_BYTES / rate).min(QUEUE_SEGMENT_SECONDS) / 2.0;
        let gathering = rate * gather * self.gather_cost() / self.input.node.background_speed();
        f64::midpoint(gather + open, open) + gathering
    }

    /// Bytes of text in a range that are in the queue.
    pub(crate) fn queued_range_bytes(&self, range_seconds: f64) -> f64 {
        self.range_bytes(range_seconds.min(self.queued_seconds()))
    }

    /// Bytes of text in a range that are in stored segments and that this node searches.
    pub(crate) fn stored_range_bytes(&self, range_seconds: f64) -> f64 {
        self.range_bytes(range_seconds) - self.range_bytes(range_seconds.min(self.queued_seconds()))
    }

    /// Seconds of accepted text that a store gathers at once, at this many bytes per second.
    fn batch_seconds(bytes_per_second: f64) -> f64 {
        (GATHER_BYTES / bytes_per_second).min(GATHER_SECONDS)
    }

    /// Bytes of text that a store gathers at once, at the peak.
    pub(crate) fn batch_bytes(&self) -> f64 {
        let rate = self.accepted_by_one();
        match self.input.ack_point {
            // A client that waits for it has its request gathered at once.
            AckPoint::Stored => self.input.request_bytes,
            AckPoint::Written | AckPoint::Synced if rate > 0.0 => rate * Self::batch_seconds(rate),
            AckPoint::Written | AckPoint::Synced => 0.0,
        }
    }

    /// How often each byte of text is merged, at the peak. Batches of several ingest nodes cover the same time, which may lead to more
    /// merges.
    pub(crate) fn merges(&self) -> f64 {
        merge_count(SEGMENT_TEXT_BYTES / self.batch_bytes())
    }

    /// How often per second new blocks come into a range, and the bytes of their text that this node searches: batches, and the
    /// outputs of the merges that follow before the end of the range.
    pub(crate) fn new_blocks(&self, range_seconds: f64) -> (f64, f64) {
        let rate = self.copied_mean();
        if rate <= 0.0 {
            return (0.0, 0.0);
        }
        let seconds = Self::batch_seconds(rate);
        let batch = rate * seconds;
        // A merge waits for as many neighbours as it combines.
        let merges = merge_count((SEGMENT_TEXT_BYTES / batch).min(range_seconds / seconds));
        ((1.0 + merges) / seconds, batch / f64::from(self.input.copies))
    }
}
