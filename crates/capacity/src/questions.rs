//! The response time of questions.
//!
//! A question runs on all cores of all store nodes, and its answer is complete when the slowest node has answered
//! (fork-join). A measured share of its work runs on one core (Amdahl). On a node, concurrent questions and the acceptance of records share the cores (processor sharing), and
//! gathers and merges keep their guaranteed share. The blocks of a question are all in the block cache, or all but those that are
//! new, or the cache has no room for them; so its time is a mixture of three distributions, whose percentiles are never averaged.

use bucksaw_model::Distribution;

use crate::calibration::QuestionCost;
use crate::input::PlannedQuestion;
use crate::planned_node::{BACKGROUND_SHARE, BLOCK_TEXT_BYTES, PlannedNode};
use crate::question_kind::QuestionKind;

/// Reads from the disk per block: the length of its record, and the record.
const READS_PER_BLOCK: f64 = 2.0;

/// What a plan says about one question.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionFigures {
    /// The question.
    pub question: PlannedQuestion,
    /// Bytes of text in its range, per node.
    pub node_bytes: f64,
    /// The share of these questions whose blocks are in the block cache.
    pub cached_share: f64,
    /// CPU seconds of one question, all nodes together.
    pub cpu_seconds: f64,
    /// Mean response time in seconds.
    pub mean_seconds: f64,
    /// Median response time in seconds.
    pub p50_seconds: f64,
    /// 99th percentile of the response time in seconds.
    pub p99_seconds: f64,
}

impl PlannedNode<'_> {
    /// What questions of a kind cost; infinite if it was not measured.
    pub(crate) fn question_cost(&self, kind: QuestionKind) -> QuestionCost {
        // The input is checked: each of its kinds was measured.
        self.calibration.question(kind).copied().unwrap_or(QuestionCost {
            kind,
            fixed_seconds: f64::INFINITY,
            queued_seconds_per_byte: 0.0,
            cold_seconds_per_byte: 0.0,
            cached_seconds_per_byte: 0.0,
            cache_per_byte: 0.0,
            serial_share: 0.0,
            variation: 0.0,
        })
    }

    /// The share of a question's blocks that the block cache holds, when it is asked again and again.
    pub(crate) fn cached_share(&self, question: &PlannedQuestion) -> f64 {
        let needed = self.stored_range_bytes(question.range_seconds) * self.question_cost(question.kind).cache_per_byte;
        if needed <= self.cache_bytes() { 1.0 } else { self.cache_bytes() / needed }
    }

    /// The share of questions that are the first ones after new blocks came, and the bytes of text of these blocks.
    pub(crate) fn first_questions(&self, question: &PlannedQuestion) -> (f64, f64) {
        let (per_second, bytes) = self.new_blocks(question.range_seconds);
        let asked = question.per_second * self.question_factor;
        let stored = self.stored_range_bytes(question.range_seconds);
        if asked > per_second {
            (per_second / asked, bytes.min(stored))
        } else {
            let arrived = if asked > 0.0 { per_second / asked * bytes } else { stored };
            (1.0, arrived.min(stored))
        }
    }

    /// Mean bytes of the stored text of a question that are not in the block cache.
    pub(crate) fn mean_cold_bytes(&self, question: &PlannedQuestion) -> f64 {
        let (share, bytes) = self.first_questions(question);
        let cached = self.cached_share(question);
        (1.0 - cached) * self.stored_range_bytes(question.range_seconds) + cached * share * bytes
    }

    /// Cores that answer questions.
    pub(crate) fn search_cores(&self) -> f64 {
        if !self.tier.has_store() {
            return 0.0;
        }
        let cores = |question: &PlannedQuestion| question.per_second * self.mean_question_demand(question).cpu_seconds;
        self.input.questions.iter().map(cores).sum::<f64>() * self.question_factor
    }

    /// By how much other work on the node stretches the time of a question; infinite if there is no capacity left. With a CPU
    /// limit other questions alone: what else uses it is in [`PlannedNode::limited_question`].
    pub(crate) fn stretch(&self) -> f64 {
        let node = &self.input.node;
        let free = match node.effective_limit() {
            Some(limit) => {
                let left = self.limited_question_cores(limit);
                if left > 0.0 { 1.0 - self.search_cores() / left } else { 0.0 }
            }
            None => {
                let background = (self.store_cores() / node.cores).min(BACKGROUND_SHARE);
                1.0 - (self.accept_cores() + self.search_cores()) / node.cores - background
            }
        };
        let free = free - self.disk_wait_share();
        if free > 0.0 { 1.0 / free } else { f64::INFINITY }
    }

    /// The share of the time in which questions wait for the disk. They keep their threads meanwhile, so others wait for these.
    pub(crate) fn disk_wait_share(&self) -> f64 {
        self.sum_of_uncached(Self::read_seconds)
    }

    /// The sum of a value over the questions per second that find their blocks not in the block cache.
    fn sum_of_uncached(&self, value: impl Fn(&Self, &PlannedQuestion) -> f64) -> f64 {
        if !self.tier.has_store() {
            return 0.0;
        }
        let of = |question: &PlannedQuestion| {
            question.per_second * (1.0 - self.cached_share(question)) * value(self, question)
        };
        self.input.questions.iter().map(of).sum::<f64>() * self.question_factor
    }

    /// Bytes that the disk reads for a question whose blocks are not in the block cache.
    fn read_bytes(&self, question: &PlannedQuestion) -> f64 {
        let cost = self.question_cost(question.kind);
        // Questions whose blocks are excluded by their skip filters read in proportion to what they decode.
        let decoded = cost.cache_per_byte.min(self.calibration.store.stored_per_byte);
        self.stored_range_bytes(question.range_seconds) * decoded
    }

    /// Bytes per second that its disk reads for questions.
    pub(crate) fn read(&self) -> f64 {
        self.sum_of_uncached(Self::read_bytes)
    }

    /// Seconds in which the disk reads the blocks of a question that are not in the block cache. The page cache of the system may
    /// have them; then a question is faster by this. Each core reads one block at a time.
    fn read_seconds(&self, question: &PlannedQuestion) -> f64 {
        let share = if self.question_cost(question.kind).cache_per_byte > 0.0 { 1.0 } else { 0.0 };
        let blocks = (self.stored_range_bytes(question.range_seconds) / BLOCK_TEXT_BYTES).ceil() * share;
        let rounds = (blocks / self.input.node.question_threads()).ceil();
        self.read_bytes(question) / self.input.node.disk_bytes_per_second
            + rounds * READS_PER_BLOCK * self.input.node.disk_read_seconds
    }

    /// The response time of a question on this node alone; `None` if the node is overloaded.
    fn node_response(&self, question: &PlannedQuestion) -> Option<Distribution> {
        let stretch = self.stretch();
        if stretch.is_infinite() {
            return None;
        }
        let variation = self.question_cost(question.kind).variation;
        let time = |cold_bytes: f64, read_seconds: f64| {
            let demand = self.question_demand(question, cold_bytes);
            let run = Distribution::lognormal(demand.seconds + read_seconds, variation).ok()?;
            self.limited_question(demand, run)
        };
        let cached = self.cached_share(question);
        // New blocks were written just now, so the system has them in memory.
        let (first, new_bytes) = self.first_questions(question);
        let all = time(self.stored_range_bytes(question.range_seconds), self.read_seconds(question))?;
        let (later, first_of_blocks) = (time(0.0, 0.0)?, time(new_bytes, 0.0)?);
        let parts = [(cached * (1.0 - first), &later), (cached * first, &first_of_blocks), (1.0 - cached, &all)];
        Distribution::mixture(&parts).and_then(|mixture| mixture.scaled(stretch)).ok()
    }

    /// The figures of a question over all store nodes.
    pub(crate) fn question(&self, question: &PlannedQuestion) -> QuestionFigures {
        let nodes = self.store_nodes;
        let response = self.node_response(question).map(|response| response.slowest_of(nodes as u32));
        let of = |value: &dyn Fn(&Distribution) -> f64| response.as_ref().map_or(f64::INFINITY, value);
        QuestionFigures {
            question: *question,
            node_bytes: self.range_bytes(question.range_seconds),
            cached_share: self.cached_share(question),
            cpu_seconds: self.mean_question_demand(question).cpu_seconds * nodes,
            mean_seconds: of(&Distribution::mean),
            p50_seconds: of(&|response| response.quantile(0.5)),
            p99_seconds: of(&|response| response.quantile(0.99)),
        }
    }
}
