//! Where the text of a range is: in the queue, in blocks that are new, or in blocks that earlier questions have decoded.
//!
//! ```text
//!   now ◄── queue ──►◄── stored ───────────────────────────────────────► start of the range
//!                     a batch of blocks is new until the first question, and again after each merge
//! ```

use crate::planned_node::{PlannedNode, SEGMENT_TEXT_BYTES};
use crate::write_path::{QUEUE_SEGMENT_BYTES, QUEUE_SEGMENT_SECONDS};

/// The age of the oldest record in the queue at which a store gathers, and the text at which it does not wait for that.
const GATHER_SECONDS: f64 = 10.0;
const GATHER_BYTES: f64 = (128_u32 << 20) as f64;

/// The least number of segments that a merge combines.
const MERGE_INPUTS: f64 = 4.0;

impl PlannedNode<'_> {
    /// The mean age of the oldest record in the queue, in seconds. It grows from that of an open queue segment to that at which a
    /// store gathers, and for the time of the gather, and falls back.
    pub(crate) fn queued_seconds(&self) -> f64 {
        let rate = self.copied_mean();
        if rate <= 0.0 {
            return 0.0;
        }
        let gather = (GATHER_BYTES / rate).min(GATHER_SECONDS);
        let open = (QUEUE_SEGMENT_BYTES / rate).min(QUEUE_SEGMENT_SECONDS) / 2.0;
        let gathering = rate * gather * self.store_cost() / self.input.node.cores.min(1.0);
        f64::midpoint(gather + open, open) + gathering
    }

    /// Bytes of text in a range that are in the queue, of which there is one copy.
    pub(crate) fn queued_range_bytes(&self, range_seconds: f64) -> f64 {
        self.range_bytes(range_seconds.min(self.queued_seconds())) / f64::from(self.input.copies)
    }

    /// Bytes of text in a range that are in stored segments.
    pub(crate) fn stored_range_bytes(&self, range_seconds: f64) -> f64 {
        self.range_bytes(range_seconds) - self.range_bytes(range_seconds.min(self.queued_seconds()))
    }

    /// How often per second new blocks come into a range, and their bytes of text: batches, and the outputs of the merges that
    /// follow before the end of the range.
    pub(crate) fn new_blocks(&self, range_seconds: f64) -> (f64, f64) {
        let rate = self.copied_mean();
        if rate <= 0.0 {
            return (0.0, 0.0);
        }
        let seconds = (GATHER_BYTES / rate).min(GATHER_SECONDS);
        let batch = rate * seconds;
        // A merge waits for as many neighbours as it combines.
        let (mut merges, mut merged) = (0.0, MERGE_INPUTS);
        while batch * merged <= SEGMENT_TEXT_BYTES && seconds * merged <= range_seconds {
            merges += 1.0;
            merged *= MERGE_INPUTS;
        }
        ((1.0 + merges) / seconds, batch)
    }
}
