//! What a question costs a node, and how long it takes there while nothing else runs.

use crate::input::PlannedQuestion;
use crate::planned_node::{BLOCK_TEXT_BYTES, PlannedNode};
use crate::segment_rotation::{QUEUE_SEGMENT_BYTES, QUEUE_SEGMENT_SECONDS};

/// The service demand of one question on one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuestionDemand {
    /// CPU seconds.
    pub(crate) cpu_seconds: f64,
    /// Seconds while nothing else runs.
    pub(crate) seconds: f64,
}

impl PlannedNode<'_> {
    /// The demand of a question of whose stored text this many bytes are not in the block cache.
    ///
    /// The fixed part runs on one core, the rest on all of them but for its serial share. A block or a queue segment is searched by
    /// one thread, so no question is faster than its longest one: the first question over a new batch waits for one block.
    pub(crate) fn question_demand(&self, question: &PlannedQuestion, cold_bytes: f64) -> QuestionDemand {
        let cost = self.question_cost(question.kind);
        let stored = self.stored_range_bytes(question.range_seconds);
        let queued = self.queued_range_bytes(question.range_seconds);
        let text_seconds = queued * cost.queued_seconds_per_byte
            + (stored - cold_bytes) * cost.cached_seconds_per_byte
            + cold_bytes * cost.cold_seconds_per_byte;
        let queue_segment = QUEUE_SEGMENT_BYTES.min(self.copied_mean() * QUEUE_SEGMENT_SECONDS);
        let longest_seconds = [
            (queued.min(queue_segment), cost.queued_seconds_per_byte),
            ((stored - cold_bytes).min(BLOCK_TEXT_BYTES), cost.cached_seconds_per_byte),
            (cold_bytes.min(BLOCK_TEXT_BYTES), cost.cold_seconds_per_byte),
        ]
        .iter()
        .fold(0.0_f64, |longest, (bytes, seconds_per_byte)| longest.max(bytes * seconds_per_byte));
        let divided_seconds = text_seconds * cost.seconds_per_cpu_second(self.input.node.question_threads());
        QuestionDemand {
            cpu_seconds: cost.fixed_seconds + text_seconds,
            seconds: cost.fixed_seconds + divided_seconds.max(longest_seconds),
        }
    }

    /// The demand of a question with the mean number of bytes that are not in the block cache.
    pub(crate) fn mean_question_demand(&self, question: &PlannedQuestion) -> QuestionDemand {
        self.question_demand(question, self.mean_cold_bytes(question))
    }
}
