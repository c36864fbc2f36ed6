//! What is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    pub fn behind(self, id: Id) -> Self {
        match self.order {
            Order::Ascending => Self { from: self.from.max(Id::from_bits(id.bits().saturating_add(1))), ..self },
            Order::Descending => Self { to: self.to.min(id), ..self },
        }
    }

    /// The same for what comes before `id` in the answer, and for what comes from there on.
    pub(crate) fn split(&self, id: Id) -> (Self, Self) {
        let behind = Id::from_bits(id.bits().saturating_add(1));
        match self.order {
            Order::Ascending => (Self { to: id, ..self.clone() }, Self { from: id, ..self.clone() }),
            Order::Descending => (Self { from: behind, ..self.clone() }, Self { to: behind, ..self.clone() }),
        }
    }

    pub(crate) fn wants(&self, id: Id) -> bool {
        self.from <= id && id < self.to
    }

    /// Whether some of the rows may be wanted.
    pub(crate) fn reaches(&self, rows: &Rows) -> bool {
        rows.span().is_some_and(|(low, high)| low < self.to && self.from <= high)
    }

    /// Whether records of this stream may be wanted.
    pub(crate) fn of_stream(&self, labels: &Labels) -> bool {
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
    NoRecord(Id),
    /// There is none on the nodes that answered, and others may have it.
    #[error("record {0} was not found, and not all nodes that may hold it answered: {1}")]
    NotAllAnswered(Id, String),
    /// Whoever asked went away.
    #[error("cancelled")]
    Cancelled,
    /// Written out, the expression is longer than one may be, so the other nodes of the cluster cannot be asked.
    #[error("the expression is too long to be asked of other nodes: written out, it may have {INPUT_BYTES_MAX} bytes")]
    Long,
}

/// Tells a running query that nobody wants its answer any more. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
