//! The records around one, in its stream, oldest first.
//!
//! The oldest record is shown first but found last, because the search for it runs backwards. That search keeps only
//! ids, some kilobytes. A second search, from the first of these ids, returns the records. It reads a part of the
//! stream twice. Rejected: keeping the records of the first search, some megabytes per answer outside the memory of
//! queries.

use std::ops::ControlFlow;

use bucksaw_record::{Expr, Id, LabelScope, Labels, Millis};

use crate::match_buffer::RecordRef;
use crate::record_stream::{RecordSink, SinkClosed};
use crate::request::{Order, Request};
use crate::stats::QueryStats;

/// Bytes of text before a record, and after it, from which on no more records are added.
const SIDE_BYTES_MAX: usize = 4 << 20;

/// Selects the records of a context, and builds the requests that find them.
#[derive(Debug)]
pub(crate) struct ContextWindow {
    id: Id,
    stream: Labels,
    scope: Option<LabelScope>,
    /// Ids before the record, ascending.
    before: Vec<Id>,
    /// How many records after it may still be shown.
    after_left: u64,
    after_bytes: usize,
    /// Of the searches that have ended, with the number of records shown.
    pub(crate) stats: QueryStats,
}

impl ContextWindow {
    /// The record `id`, found with these `stats`, and at most `after` records after it.
    pub(crate) fn new(id: Id, (stream, scope): (Labels, Option<LabelScope>), after: u64, stats: QueryStats) -> Self {
        let stats = QueryStats { matched: 0, ..stats };
        Self { id, stream, scope, before: Vec::new(), after_left: after, after_bytes: 0, stats }
    }

    /// The request for at most `limit` records before the record, newest first.
    pub(crate) fn request_before(&self, limit: u64) -> Request {
        self.request(Id::MIN, self.id, Order::Descending, Some(limit))
    }

    /// Adds the result of [`Self::request_before`].
    pub(crate) fn set_before(&mut self, preceding: PrecedingIds, stats: &QueryStats) {
        self.before = preceding.ids;
        self.before.reverse();
        self.stats.add(stats);
    }

    /// The request for the records up to and including this one.
    pub(crate) fn request_through_record(&self) -> Request {
        let first = self.before.first().copied().unwrap_or(self.id);
        self.request(first, next_id(self.id), Order::Ascending, None)
    }

    /// The request for the records after it, if any are requested.
    pub(crate) fn request_after(&self) -> Option<Request> {
        let request = self.request(next_id(self.id), Id::MAX, Order::Ascending, Some(self.after_left));
        (self.after_left > 0).then_some(request)
    }

    fn request(&self, from: Id, to: Id, order: Order, limit: Option<u64>) -> Request {
        let (stream, scope) = (Some(self.stream.clone()), self.scope.clone());
        Request { from, to, stream, scope, order, limit, ..all_records() }
    }

    /// Whether a record belongs to the context. Each is offered once.
    fn accept(&mut self, record: RecordRef<'_>) -> bool {
        let accepts = if record.id > self.id {
            !self.is_full()
        } else {
            // Records with ids in between may have been accepted since.
            record.id == self.id || self.before.binary_search(&record.id).is_ok()
        };
        if accepts && record.id > self.id {
            self.after_left -= 1;
            self.after_bytes += record.view.text().len();
        }
        self.stats.matched += u64::from(accepts);
        accepts
    }

    /// Whether no further record after it is accepted.
    fn is_full(&self) -> bool {
        self.after_left == 0 || self.after_bytes >= SIDE_BYTES_MAX
    }
}

/// The request for one record.
pub(crate) fn record_request(id: Id, scope: Option<LabelScope>) -> Request {
    let (to, order) = (next_id(id), Order::Ascending);
    Request { from: id, to, scope, order, limit: Some(1), ..all_records() }
}

fn all_records() -> Request {
    Request::new(Expr::All, Millis(0), Millis::MAX)
}

fn next_id(id: Id) -> Id {
    Id::from_bits(id.bits().saturating_add(1))
}

/// The ids of the records before another, newest first, within [`SIDE_BYTES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct PrecedingIds {
    ids: Vec<Id>,
    bytes: usize,
}

impl RecordSink for PrecedingIds {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        if !self.is_full() {
            self.bytes += record.view.text().len();
            self.ids.push(record.id);
        }
        if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn is_full(&self) -> bool {
        self.bytes >= SIDE_BYTES_MAX
    }
}

/// Passes the records of a context on to another sink.
pub(crate) struct ContextSink<S> {
    pub(crate) window: ContextWindow,
    pub(crate) sink: S,
    /// Whether the search for the records after the record runs.
    pub(crate) is_after: bool,
}

impl<S: RecordSink> RecordSink for ContextSink<S> {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        if self.window.accept(record) { self.sink.push(record) } else { ControlFlow::Continue(()) }
    }

    fn is_full(&self) -> bool {
        self.is_after && self.window.is_full()
    }

    fn flush(&mut self) -> impl Future<Output = Result<(), SinkClosed>> + Send {
        self.sink.flush()
    }

    fn flush_blocking(&mut self, release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        self.sink.flush_blocking(release_memory)
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.sink.closed()
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::RecordView;

    use super::*;

    #[test]
    fn only_records_of_the_window_are_accepted() {
        let stream = Labels::default();
        let record = |number: u128| RecordRef {
            id: Id::from_bits(number),
            nanos: 0,
            flags: 0,
            labels: &stream,
            view: RecordView::line_only(b"x"),
            is_stored: false,
        };
        let mut window = ContextWindow::new(Id::from_bits(10), (stream.clone(), None), 2, QueryStats::default());
        let mut preceding = PrecedingIds::default();
        for number in [8, 5] {
            assert!(preceding.push(record(number)).is_continue());
        }
        window.set_before(preceding, &QueryStats::default());
        assert_eq!(window.request_through_record().from, Id::from_bits(5));
        // 6 was accepted after the ids before the record were collected.
        let accepted: Vec<u128> =
            [5, 6, 8, 10, 11, 12, 13].into_iter().filter(|id| window.accept(record(*id))).collect();
        assert_eq!((accepted, window.stats.matched), (vec![5, 8, 10, 11, 12], 5));
    }
}
