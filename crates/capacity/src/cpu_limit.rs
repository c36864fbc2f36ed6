//! How a CPU limit delays requests and questions.
//!
//! A gather or merge takes all that the limit leaves, at any priority: the kernel stops all threads of the node at once. So while
//! one runs, a request that arrives after the limit of its period is used up waits for the next period.

use bucksaw_model::{CpuQuota, Distribution};

use crate::input::CpuLimit;
use crate::planned_node::{BACKGROUND_SHARE, PlannedNode};
use crate::question_demand::QuestionDemand;
use crate::range_text::MERGE_INPUTS;

impl PlannedNode<'_> {
    /// The share of the time in which a gather or merge runs that uses up, period by period, what other work leaves of a CPU limit; 0
    /// without a limit.
    pub(crate) fn limited_background_share(&self) -> f64 {
        let Some(limit) = self.input.node.effective_limit() else { return 0.0 };
        let (copied, batch) = (self.copied(), self.batch_bytes());
        let beside_accepting = limit.cores - self.accept_cores();
        let left = beside_accepting - self.search_cores();
        let gather = self.gather_cost();
        let quota = CpuQuota {
            period_seconds: limit.period_seconds,
            open_seconds: limit.period_seconds * beside_accepting.max(0.0),
        };
        let gathers = copied * gather * stopping_ratio(quota, batch * gather);
        let merge = self.calibration.store.merge_seconds_per_byte * self.calibration.scaling.factor(self.store_nodes);
        let merges = copied * self.merges() * merge * stopping_ratio(quota, MERGE_INPUTS * batch * merge);
        if left > 0.0 { ((gathers + merges) / left).min(1.0) } else { 1.0 }
    }

    /// Cores of a limit that are left for questions while records are accepted, and gathers and merges take their guaranteed share.
    pub(crate) fn limited_question_cores(&self, limit: CpuLimit) -> f64 {
        let background = self.store_cores().min(BACKGROUND_SHARE * limit.cores);
        limit.cores - self.accept_cores() - background
    }

    /// The time of a request until its acknowledgement, from that without a limit; `None` if the limit leaves nothing.
    pub(crate) fn limited_request(&self, ack: Distribution) -> Option<Distribution> {
        let Some(limit) = self.input.node.effective_limit() else { return Some(ack) };
        let left = (limit.cores - self.accept_cores()).max(0.0);
        let of_threads = |threads: f64| CpuQuota {
            period_seconds: limit.period_seconds,
            open_seconds: limit.period_seconds * left / threads,
        };
        let threads = self.input.node.question_threads();
        let (background, questions, both) = (of_threads(1.0), of_threads(threads), of_threads(1.0 + threads));
        let background_share = self.limited_background_share();
        let both_share = background_share * self.questions_beside_background(left);
        let stopped_share = questions.stopped_share();
        let question_share = if stopped_share > 0.0 {
            (self.stopped_by_questions(limit)? / stopped_share).min(1.0) * (1.0 - background_share)
        } else {
            0.0
        };
        let parts = [
            ((1.0 - background_share - question_share).max(0.0), &ack),
            (background_share - both_share, &background.beside(&ack)?),
            (both_share, &both.beside(&ack)?),
            (question_share, &questions.beside(&ack)?),
        ];
        Distribution::mixture(&parts).ok()
    }

    /// The share of the time of a gather or merge in which a question runs too: both use as much of what is left of the limit as they
    /// have threads, so the questions take longer than they would alone.
    fn questions_beside_background(&self, left: f64) -> f64 {
        let threads = self.input.node.question_threads();
        let cores = left * threads / (1.0 + threads);
        if cores > 0.0 { (self.search_cores() / cores).min(1.0) } else { 1.0 }
    }

    /// The share of the time in which the node is stopped because questions have used up the limit.
    fn stopped_by_questions(&self, limit: CpuLimit) -> Option<f64> {
        if !self.tier.has_store() {
            return Some(0.0);
        }
        let mut share = 0.0;
        for question in &self.input.questions {
            let demand = self.mean_question_demand(question);
            let run = Distribution::constant(demand.seconds).ok()?;
            // Rounded, it may be less than nothing.
            let stopped = (self.question_quota(limit, demand).alone(&run)?.mean() - demand.seconds).max(0.0);
            share += question.per_second * self.question_factor * stopped;
        }
        Some(share)
    }

    /// The quota of a question with this demand.
    fn question_quota(&self, limit: CpuLimit, demand: QuestionDemand) -> CpuQuota {
        let left = self.limited_question_cores(limit).max(0.0);
        let cores = if demand.seconds > 0.0 { demand.cpu_seconds / demand.seconds } else { 1.0 };
        CpuQuota { period_seconds: limit.period_seconds, open_seconds: limit.period_seconds * left / cores }
    }

    /// The time of a question that is the only one, from that without a limit; `None` if the limit leaves nothing.
    pub(crate) fn limited_question(&self, demand: QuestionDemand, run: Distribution) -> Option<Distribution> {
        let Some(limit) = self.input.node.effective_limit() else { return Some(run) };
        let quota = self.question_quota(limit, demand);
        let background = self.limited_background_share();
        Distribution::mixture(&[(1.0 - background, &quota.alone(&run)?), (background, &quota.beside(&run)?)]).ok()
    }
}

/// How long a job of this much CPU on one thread is stopped by a quota, relative to one that never ends: 0 if it fits into what is
/// left of a period, nearly 1 if it takes many.
fn stopping_ratio(quota: CpuQuota, cpu_seconds: f64) -> f64 {
    let stopped_share = quota.stopped_share();
    let run = Distribution::constant(cpu_seconds).ok();
    let Some(elapsed) = run.and_then(|run| quota.alone(&run)) else { return 1.0 };
    let endless = cpu_seconds * stopped_share / (1.0 - stopped_share);
    // Rounded, it may be less than nothing.
    if endless > 0.0 { ((elapsed.mean() - cpu_seconds) / endless).clamp(0.0, 1.0) } else { 0.0 }
}
