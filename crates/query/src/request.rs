//! Requests, and their cancellation and time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::Clock;
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id, LabelScope, Labels, Millis};
use bucksaw_scan::CompileError;
use bucksaw_segment::Rows;
use bucksaw_store::erasure::ErasureSet;
use bucksaw_store::{SearchShare, StreamRetention};

/// The order of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

impl Order {
    /// Keys ascend in an answer of this order.
    pub(crate) fn key(self, id: Id) -> u128 {
        match self {
            Self::Ascending => id.bits(),
            Self::Descending => !id.bits(),
        }
    }

    /// The inverse of [`Self::key`].
    pub(crate) fn id_at(self, key: u128) -> Id {
        match self {
            Self::Ascending => Id::from_bits(key),
            Self::Descending => Id::from_bits(!key),
        }
    }
}

/// A query for the records of a time range.
#[derive(Clone, Debug)]
pub struct Request {
    /// Selects the records.
    pub expr: Expr,
    /// The lowest id, inclusive.
    pub from: Id,
    /// The highest id, exclusive.
    pub to: Id,
    /// If set, only this stream.
    pub stream: Option<Labels>,
    /// The streams that exist for the client; `None` for all. The answer is as if no others existed.
    pub scope: Option<LabelScope>,
    /// The order of records.
    pub order: Order,
    /// The maximum number of records.
    pub limit: Option<u64>,
    /// When the records of each stream are past their retention. Each engine sets it when it starts the work.
    pub retention: Option<Arc<StreamRetention>>,
    /// What is erased; blocks of the store are already without it. Each engine sets it when it starts the work.
    pub erasures: ErasureSet,
    /// Whether to leave out the store, because another node reads the database of all stores for this answer.
    pub queue_only: bool,
    /// If set, the part of the search that this node does for an answer of all nodes.
    pub share: Option<Arc<SearchShare>>,
}

impl Request {
    /// All matching records with times from `from`, inclusive, to `to`, exclusive, oldest first.
    #[must_use]
    pub fn new(expr: Expr, from: Millis, to: Millis) -> Self {
        let to = if to >= Millis::MAX { Id::MAX } else { Id::first_at(to) };
        Self {
            expr,
            from: Id::first_at(from),
            to,
            stream: None,
            scope: None,
            order: Order::Ascending,
            limit: None,
            retention: None,
            erasures: ErasureSet::default(),
            queue_only: false,
            share: None,
        }
    }

    /// Answered as if only the streams of `scope` existed; all streams for `None`.
    #[must_use]
    pub fn within(self, scope: Option<LabelScope>) -> Self {
        Self { scope, ..self }
    }

    /// Restricted to the records after `id` in the answer.
    #[must_use]
    pub fn after(self, id: Id) -> Self {
        match self.order {
            Order::Ascending => Self { from: self.from.max(Id::from_bits(id.bits().saturating_add(1))), ..self },
            Order::Descending => Self { to: self.to.min(id), ..self },
        }
    }

    /// Restricted to the records before `id` in the answer, and to the rest.
    pub(crate) fn split_at(&self, id: Id) -> (Self, Self) {
        let next = Id::from_bits(id.bits().saturating_add(1));
        match self.order {
            Order::Ascending => (Self { to: id, ..self.clone() }, Self { from: id, ..self.clone() }),
            Order::Descending => (Self { from: next, ..self.clone() }, Self { to: next, ..self.clone() }),
        }
    }

    /// Whether an answer has rows of a stream, as far as streams are kept for different ages. Where all are kept for one age, the
    /// summaries of blocks and queue segments decide.
    pub(crate) fn retains(&self, labels: &Labels, newest: Millis) -> bool {
        let retention = self.retention.as_ref().filter(|retention| retention.has_rules());
        retention.is_none_or(|retention| retention.is_retained(labels, newest))
    }

    /// Whether some of these rows of a stream may be requested.
    pub(crate) fn wants(&self, labels: &Labels, rows: &Rows) -> bool {
        self.overlaps(rows) && self.matches_stream(labels) && self.retains(labels, rows.newest())
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.from <= id && id < self.to
    }

    /// Whether some of the rows may be requested.
    pub(crate) fn overlaps(&self, rows: &Rows) -> bool {
        rows.id_range().is_some_and(|(low, high)| low < self.to && self.from <= high)
    }

    /// Whether records of this stream may be requested.
    pub(crate) fn matches_stream(&self, labels: &Labels) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream == labels)
            && self.scope.as_ref().is_none_or(|scope| scope.covers(labels))
    }
}

/// Why a request cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A regex of the expression cannot be compiled.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// No such record exists.
    #[error("there is no record {0}: it may have expired")]
    RecordNotFound(Id),
    /// It was not found, and not all was searched.
    #[error("record {0} not found, but not all records could be searched: {1}")]
    RecordMaybeMissing(Id, String),
    /// The client disconnected.
    #[error("cancelled")]
    Cancelled,
    /// The expression, formatted as text, exceeds the limit, so it cannot be sent to other nodes.
    #[error("the expression is too long to be sent to other nodes: at most {INPUT_BYTES_MAX} bytes when written out")]
    ExpressionTooLong,
    /// The call reads no lines, and the expression has terms on them.
    #[error(
        "the expression has terms on the text of records, which this call does not read: use labels, such as app=shop"
    )]
    NotAboutLabels,
    /// A scan thread panicked.
    #[error("internal error: see the log of the node")]
    Internal,
}

/// Stops a running query when its client is gone or its time limit is reached. All clones stop together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel {
    cancelled: Arc<AtomicBool>,
    limit: Option<Arc<TimeLimit>>,
}

/// Cancels when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(pub(crate) Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A time limit that is paused while the query waits for its reader.
#[derive(Debug)]
struct TimeLimit {
    clock: Arc<dyn Clock>,
    duration: Option<Duration>,
    /// Uptime of the deadline in microseconds; [`NEVER`] without a limit and while paused.
    deadline_us: AtomicU64,
    /// Remaining microseconds while paused; else [`NEVER`].
    remaining_us: AtomicU64,
    /// Whether work was left undone at the deadline.
    is_exceeded: AtomicBool,
}

const NEVER: u64 = u64::MAX;

impl Cancel {
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled, time limit aside.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Adds a time limit that starts now, unless it has one.
    pub(crate) fn with_time_limit(&self, clock: &Arc<dyn Clock>, duration: Option<Duration>) -> Self {
        let start = || {
            let deadline = duration.map_or(NEVER, |duration| micros(clock.uptime() + duration));
            Arc::new(TimeLimit {
                clock: Arc::clone(clock),
                duration,
                deadline_us: AtomicU64::new(deadline),
                remaining_us: AtomicU64::new(NEVER),
                is_exceeded: AtomicBool::new(false),
            })
        };
        let limit = self.limit.clone().unwrap_or_else(start);
        Self { cancelled: Arc::clone(&self.cancelled), limit: Some(limit) }
    }

    /// Whether remaining work must stop. Called between bounded slices of work, and only while work remains: reaching
    /// the time limit here makes the answer partial.
    pub(crate) fn should_stop(&self) -> bool {
        if self.is_cancelled() {
            return true;
        }
        let Some(limit) = &self.limit else { return false };
        if limit.is_exceeded.load(Ordering::Relaxed) {
            return true;
        }
        let is_over = micros(limit.clock.uptime()) >= limit.deadline_us.load(Ordering::Relaxed);
        if is_over {
            limit.is_exceeded.store(true, Ordering::Relaxed);
        }
        is_over
    }

    /// Whether work was left undone because of a cancellation or the time limit.
    pub(crate) fn has_stopped(&self) -> bool {
        self.is_cancelled() || self.timed_out().is_some()
    }

    /// The time limit, if it left work undone.
    pub(crate) fn timed_out(&self) -> Option<Duration> {
        let limit = self.limit.as_ref()?;
        limit.duration.filter(|_| limit.is_exceeded.load(Ordering::Relaxed))
    }

    /// Pauses the time limit while the reader works.
    pub(crate) fn pause_time_limit(&self) {
        if let Some(limit) = &self.limit {
            let deadline = limit.deadline_us.swap(NEVER, Ordering::Relaxed);
            if deadline != NEVER {
                let remaining = deadline.saturating_sub(micros(limit.clock.uptime()));
                limit.remaining_us.store(remaining, Ordering::Relaxed);
            }
        }
    }

    /// Resumes the time limit.
    pub(crate) fn resume_time_limit(&self) {
        if let Some(limit) = &self.limit {
            let remaining = limit.remaining_us.swap(NEVER, Ordering::Relaxed);
            if remaining != NEVER {
                let deadline = micros(limit.clock.uptime()).saturating_add(remaining);
                limit.deadline_us.store(deadline, Ordering::Relaxed);
            }
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use bucksaw_env::sim;

    use super::*;

    #[test]
    fn time_waiting_for_the_reader_is_not_limited() {
        let sim = Arc::new(sim::Clock::at_unix_ms(0));
        let clock: Arc<dyn Clock> = sim.clone();
        let second = Duration::from_secs(1);
        let cancel = Cancel::default().with_time_limit(&clock, Some(second * 2));
        assert!(!cancel.should_stop());
        sim.advance(second);
        cancel.pause_time_limit();
        sim.advance(second * 100);
        assert!(!cancel.should_stop() && cancel.timed_out().is_none());
        cancel.resume_time_limit();
        assert!(!cancel.should_stop());
        // A second limit does not replace the first.
        let same = cancel.with_time_limit(&clock, Some(second * 2));
        sim.advance(second);
        assert!(same.should_stop() && !cancel.is_cancelled());
        assert_eq!(cancel.timed_out(), Some(second * 2));
        let without = Cancel::default().with_time_limit(&clock, None);
        sim.advance(second * 100_000);
        assert!(!without.should_stop());
        without.cancel();
        assert!(without.should_stop() && without.timed_out().is_none());
    }
}
