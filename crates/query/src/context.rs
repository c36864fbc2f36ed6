//! The records around one, in its stream, oldest first.
//!
//! The oldest is shown first, and is found last, on the way from the record back. So only the ids of the records before it
//! are kept, some kilobytes; then a search from the first of them on shows all. That reads a part of the stream twice.
//! (Rejected: to keep the records that were found on the way back, some megabytes for each answer and no part of the
//! memory of queries.)

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::{Expr, Id, Labels};

use crate::engine::Engine;
use crate::match_buffer::RecordRef;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::search::Search;
use crate::stats::QueryStats;

/// Bytes of text before a record, and behind it, beyond which no more records are added: some may be very long.
const SIDE_BYTES_MAX: usize = 4 << 20;

/// Which records are around one, and how many of them were shown.
#[derive(Debug)]
pub(crate) struct ContextWindow {
    id: Id,
    stream: Labels,
    /// Those before it, oldest first.
    before: Vec<Id>,
    /// How many behind it may still be shown, and bytes of those that were.
    after_left: u64,
    after_bytes: usize,
    /// Of the searches that have ended, with the number of records that were shown.
    pub(crate) stats: QueryStats,
}

impl ContextWindow {
    /// The record itself, found with these `stats`, and at most `after` records behind it.
    pub(crate) fn new(id: Id, stream: Labels, after: u64, stats: QueryStats) -> Self {
        let stats = QueryStats { matched: 0, ..stats };
        Self { id, stream, before: Vec::new(), after_left: after, after_bytes: 0, stats }
    }

    /// The question for at most `limit` records before it, newest first.
    pub(crate) fn request_before(&self, limit: u64) -> Request {
        stream_request(Id::MIN, self.id, Some(&self.stream), Order::Descending, Some(limit))
    }

    /// Adds what that question found.
    pub(crate) fn set_before(&mut self, older: PrecedingIds) {
        self.before = older.ids;
        self.before.reverse();
    }

    /// The question for the records up to this one, and with it.
    pub(crate) fn request_through_record(&self) -> Request {
        let first = self.before.first().copied().unwrap_or(self.id);
        stream_request(first, next_id(self.id), Some(&self.stream), Order::Ascending, None)
    }

    /// The question for those behind it; `None` when none is wanted.
    pub(crate) fn request_after(&self) -> Option<Request> {
        let ask =
            || stream_request(next_id(self.id), Id::MAX, Some(&self.stream), Order::Ascending, Some(self.after_left));
        (self.after_left > 0).then(ask)
    }

    /// Whether a record that was found is one of these. Each is offered once.
    pub(crate) fn accept(&mut self, record: RecordRef<'_>) -> bool {
        let takes = if record.id > self.id {
            let takes = !self.is_full();
            if takes {
                self.after_left -= 1;
                self.after_bytes += record.text.len();
            }
            takes
        } else {
            // Others may have come in between since.
            record.id == self.id || self.before.binary_search(&record.id).is_ok()
        };
        self.stats.matched += u64::from(takes);
        takes
    }

    /// Whether no record behind it will be taken any more.
    pub(crate) fn is_full(&self) -> bool {
        self.after_left == 0 || self.after_bytes >= SIDE_BYTES_MAX
    }
}

/// The ids of the records before another, newest first, and not too many bytes of these.
#[derive(Debug, Default)]
pub(crate) struct PrecedingIds {
    ids: Vec<Id>,
    bytes: usize,
}

impl PrecedingIds {
    /// Keeps the id of the next record, and says whether there may be one more.
    pub(crate) fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        if !self.is_full() {
            self.bytes += record.text.len();
            self.ids.push(record.id);
        }
        if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= SIDE_BYTES_MAX
    }
}

/// The question for a record.
pub(crate) fn record_request(id: Id) -> Request {
    stream_request(id, next_id(id), None, Order::Ascending, Some(1))
}

fn next_id(id: Id) -> Id {
    Id::from_bits(id.bits().saturating_add(1))
}

fn stream_request(from: Id, to: Id, stream: Option<&Labels>, order: Order, limit: Option<u64>) -> Request {
    Request { expr: Expr::All, from, to, stream: stream.cloned(), order, limit }
}

/// The records around one, as they are asked for. Dropping it before its end stops the work.
pub struct Context {
    engine: Arc<Engine>,
    cancel: Cancel,
    window: ContextWindow,
    /// `None` at the end.
    search: Option<Search>,
    /// The question for the records behind it, until it is asked.
    after: Option<Request>,
    is_after: bool,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("around", &self.window).finish_non_exhaustive()
    }
}

impl Engine {
    /// Finds the record `id` and starts an answer with it and up to `before` and `after` records of its stream on either
    /// side, oldest first, at most 4 MB per side.
    ///
    /// # Errors
    /// [`RequestError::RecordNotFound`].
    pub fn context(
        self: &Arc<Self>,
        id: Id,
        before: u64,
        after: u64,
        cancel: &Cancel,
    ) -> Result<Context, RequestError> {
        Context::start(self, id, before, after, cancel)
    }
}

impl Context {
    /// Finds the record and which ones are before it. That may take as long as a query, and so may showing them.
    fn start(engine: &Arc<Engine>, id: Id, before: u64, after: u64, cancel: &Cancel) -> Result<Self, RequestError> {
        let finding = engine.with_time_limit(cancel);
        let mut stream = None;
        let stats = for_each_record(engine, record_request(id), &finding, &mut |record| {
            stream = Some(record.labels.clone());
            ControlFlow::Continue(())
        })?;
        let Some(stream) = stream else {
            return Err(match stats.timed_out {
                Some(_) => RequestError::RecordMaybeMissing(id, stats.partial_reasons().join("; ")),
                None => RequestError::RecordNotFound(id),
            });
        };
        let mut around = ContextWindow::new(id, stream, after, stats);
        if before > 0 {
            let mut older = PrecedingIds::default();
            let stats =
                for_each_record(engine, around.request_before(before), &finding, &mut |record| older.push(record))?;
            around.stats.add(&stats);
            around.set_before(older);
        }
        let cancel = engine.with_time_limit(cancel);
        let search = Some(engine.search(around.request_through_record(), cancel.clone())?);
        let behind = around.request_after();
        Ok(Self { engine: Arc::clone(engine), cancel, window: around, search, after: behind, is_after: false })
    }

    /// Shows the next records, as [`Search::show_batch`] does, and gives their number, which is 0 at the end.
    ///
    /// # Errors
    /// [`RequestError::Cancelled`]: there is more than was shown.
    pub fn visit_batch(
        &mut self,
        see: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>,
    ) -> Result<usize, RequestError> {
        while let Some(search) = &mut self.search {
            let around = &mut self.window;
            let mut shown = 0;
            let is_over = self.is_after && around.is_full()
                || 0 == search.visit_batch(&mut |record| {
                    let takes = around.accept(record);
                    shown += usize::from(takes);
                    if takes { see(record) } else { ControlFlow::Continue(()) }
                });
            if shown > 0 {
                return Ok(shown);
            }
            if is_over {
                self.next_search()?;
            }
        }
        Ok(0)
    }

    /// Ends a search, and begins the next.
    fn next_search(&mut self) -> Result<(), RequestError> {
        let Some(search) = self.search.take() else { return Ok(()) };
        self.window.stats.add(search.stats());
        if search.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        search.finish_early();
        let behind = self.after.take().map(|request| self.engine.search(request, self.cancel.clone()));
        (self.search, self.is_after) = (behind.transpose()?, true);
        Ok(())
    }

    /// Gives back all memory, as [`Search::let_go`] does.
    pub fn release_memory(&mut self) {
        self.search.iter_mut().for_each(Search::release_memory);
    }

    /// What the answer rests on; complete when [`Self::show_batch`] had none.
    #[must_use]
    pub fn stats(&self) -> &QueryStats {
        &self.window.stats
    }
}

/// Looks at the records of a search, until there are no more or `see` has enough.
fn for_each_record(
    engine: &Arc<Engine>,
    request: Request,
    cancel: &Cancel,
    see: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>,
) -> Result<QueryStats, RequestError> {
    let mut search = engine.search(request, cancel.clone())?;
    let mut flow = ControlFlow::Continue(());
    while flow.is_continue() {
        let shown = search.visit_batch(&mut |record| {
            flow = see(record);
            flow
        });
        if shown == 0 {
            break;
        }
    }
    if search.is_cancelled() {
        return Err(RequestError::Cancelled);
    }
    let stats = search.stats().clone();
    search.finish_early();
    Ok(stats)
}
