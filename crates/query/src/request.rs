//! What is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::Clock;
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id, Labels, Millis};
use bucksaw_scan::CompileError;
use bucksaw_segment::Rows;

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
    /// The place of an id in an answer of this order.
    pub(crate) fn key(self, id: Id) -> u128 {
        match self {
            Self::Ascending => id.bits(),
            Self::Descending => !id.bits(),
        }
    }

    /// The id at a place in an answer of this order.
    pub(crate) fn id_at(self, key: u128) -> Id {
        match self {
            Self::Ascending => Id::from_bits(key),
            Self::Descending => Id::from_bits(!key),
        }
    }
}

/// A question over a span of time.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which records.
    pub expr: Expr,
    /// The lowest id that counts.
    pub from: Id,
    /// Ids below this count.
    pub to: Id,
    /// Only this stream, when one is given.
    pub stream: Option<Labels>,
    /// In which order.
    pub order: Order,
    /// At most so many records.
    pub limit: Option<u64>,
}

impl Request {
    /// All matching records whose time is from `from` on and before `to`, oldest first.
    #[must_use]
    pub fn new(expr: Expr, from: Millis, to: Millis) -> Self {
        let to = if to >= Millis::MAX { Id::MAX } else { Id::first_at(to) };
        Self { expr, from: Id::first_at(from), to, stream: None, order: Order::Ascending, limit: None }
    }

    /// The same for what comes behind the record `id` in the answer.
    #[must_use]
    pub fn after(self, id: Id) -> Self {
        match self.order {
            Order::Ascending => Self { from: self.from.max(Id::from_bits(id.bits().saturating_add(1))), ..self },
            Order::Descending => Self { to: self.to.min(id), ..self },
        }
    }

    /// The same for what comes before `id` in the answer, and for what comes from there on.
    pub(crate) fn split_at(&self, id: Id) -> (Self, Self) {
        let behind = Id::from_bits(id.bits().saturating_add(1));
        match self.order {
            Order::Ascending => (Self { to: id, ..self.clone() }, Self { from: id, ..self.clone() }),
            Order::Descending => (Self { from: behind, ..self.clone() }, Self { to: behind, ..self.clone() }),
        }
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.from <= id && id < self.to
    }

    /// Whether some of the rows may be wanted.
    pub(crate) fn overlaps(&self, rows: &Rows) -> bool {
        rows.id_range().is_some_and(|(low, high)| low < self.to && self.from <= high)
    }

    /// Whether records of this stream may be wanted.
    pub(crate) fn matches_stream(&self, labels: &Labels) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream == labels)
    }
}

/// Why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A regex of the expression.
    #[error(transparent)]
    Expression(#[from] CompileError),
    /// There is no such record.
    #[error("there is no record {0}: it may have expired")]
    RecordNotFound(Id),
    /// There is none on the nodes that answered, and others may have it.
    #[error("record {0} not found; nodes that may hold it did not answer: {1}")]
    RecordMaybeMissing(Id, String),
    /// Whoever asked went away.
    #[error("cancelled")]
    Cancelled,
    /// Written out, the expression is longer than one may be, so the other nodes of the cluster cannot be asked.
    #[error("the expression is too long to be sent to other nodes: at most {INPUT_BYTES_MAX} bytes when written out")]
    ExpressionTooLong,
    /// A bug: a thread that worked for the query panicked.
    #[error("internal error: see the log of the node")]
    Internal,
}

/// Stops a running query: because its client has gone, or because its time limit is reached. Cheap to clone;
/// all clones stop together.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
    limit: Option<Arc<TimeLimit>>,
}

/// Cancels when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(Cancel);

impl CancelOnDrop {
    /// What it cancels.
    pub(crate) fn cancel(&self) -> Cancel {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The time that a query may take. The time in which a query waits for its reader does not count.
#[derive(Debug)]
struct TimeLimit {
    clock: Arc<dyn Clock>,
    duration: Option<Duration>,
    /// When the time is over, in microseconds of uptime; [`NEVER`] without a limit, and while the query waits for its
    /// reader.
    deadline_us: AtomicU64,
    /// Microseconds that are left while the clock is stopped; else [`NEVER`].
    remaining_us: AtomicU64,
    /// Whether work was left undone because the time was over.
    is_exceeded: AtomicBool,
}

const NEVER: u64 = u64::MAX;

impl Cancel {
    /// Cancels.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled. The time limit does not cancel.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The same with a time limit that begins now, unless there is one already.
    pub(crate) fn with_time_limit(&self, clock: &Arc<dyn Clock>, length: Option<Duration>) -> Self {
        let begin = || {
            let ends = length.map_or(NEVER, |length| micros(clock.uptime() + length));
            let (ends, left, struck) = (AtomicU64::new(ends), AtomicU64::new(NEVER), AtomicBool::new(false));
            Arc::new(TimeLimit {
                clock: Arc::clone(clock),
                duration: length,
                deadline_us: ends,
                remaining_us: left,
                is_exceeded: struck,
            })
        };
        let limit = self.limit.clone().unwrap_or_else(begin);
        Self { cancelled: Arc::clone(&self.cancelled), limit: Some(limit) }
    }

    /// Whether work that is left must stop. Called between bounded slices of work, and only while work is left: a time
    /// limit that is reached here makes the answer partial.
    pub(crate) fn should_stop(&self) -> bool {
        if self.is_cancelled() {
            return true;
        }
        let Some(limit) = &self.limit else { return false };
        if limit.is_exceeded.load(Ordering::Relaxed) {
            return true;
        }
        let now = limit.clock.uptime();
        let over = micros(now) >= limit.deadline_us.load(Ordering::Relaxed);
        if over {
            limit.is_exceeded.store(true, Ordering::Relaxed);
        }
        over
    }

    /// The time limit, when it left work undone.
    pub(crate) fn timed_out(&self) -> Option<Duration> {
        let limit = self.limit.as_ref()?;
        limit.duration.filter(|_| limit.is_exceeded.load(Ordering::Relaxed))
    }

    /// Stops the clock, while a reader has its turn.
    pub(crate) fn pause_time_limit(&self) {
        if let Some(limit) = &self.limit {
            let ends = limit.deadline_us.swap(NEVER, Ordering::Relaxed);
            if ends != NEVER {
                let left = ends.saturating_sub(micros(limit.clock.uptime()));
                limit.remaining_us.store(left, Ordering::Relaxed);
            }
        }
    }

    /// Resumes the clock.
    pub(crate) fn resume_time_limit(&self) {
        if let Some(limit) = &self.limit {
            let left = limit.remaining_us.swap(NEVER, Ordering::Relaxed);
            if left != NEVER {
                limit.deadline_us.store(micros(limit.clock.uptime()).saturating_add(left), Ordering::Relaxed);
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
        // A limit is not begun anew by who is handed it on.
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
