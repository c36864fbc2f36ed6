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
use crate::hits::RecordRef;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::search::Search;
use crate::stats::Stats;

/// Bytes of text before a record, and behind it, beyond which no more records are added: some may be very long.
const SIDE_BYTES_MAX: usize = 4 << 20;

/// Which records are around one, and how many of them were shown.
#[derive(Debug)]
pub(crate) struct Around {
    id: Id,
    stream: Labels,
    /// Those before it, oldest first.
    before: Vec<Id>,
    /// How many behind it may still be shown, and bytes of those that were.
    left: u64,
    bytes_behind: usize,
    /// Of the searches that have ended, with the number of records that were shown.
    pub(crate) stats: Stats,
}

impl Around {
    /// The record itself, found with these `stats`, and at most `after` records behind it.
    pub(crate) fn new(id: Id, stream: Labels, after: u64, stats: Stats) -> Self {
        let stats = Stats { matched: 0, ..stats };
        Self { id, stream, before: Vec::new(), left: after, bytes_behind: 0, stats }
    }

    /// The question for at most `limit` records before it, newest first.
    pub(crate) fn older(&self, limit: u64) -> Request {
        ask(Id::MIN, self.id, Some(&self.stream), Order::Descending, Some(limit))
    }

    /// Adds what that question found.
    pub(crate) fn found(&mut self, older: Older) {
        self.before = older.ids;
        self.before.reverse();
    }

    /// The question for the records up to this one, and with it.
    pub(crate) fn up_to_it(&self) -> Request {
        let first = self.before.first().copied().unwrap_or(self.id);
        ask(first, behind(self.id), Some(&self.stream), Order::Ascending, None)
    }

    /// The question for those behind it; `None` when none is wanted.
    pub(crate) fn behind_it(&self) -> Option<Request> {
        let ask = || ask(behind(self.id), Id::MAX, Some(&self.stream), Order::Ascending, Some(self.left));
        (self.left > 0).then(ask)
    }

    /// Whether a record that was found is one of these. Each is offered once.
    pub(crate) fn takes(&mut self, record: RecordRef<'_>) -> bool {
        let takes = if record.id > self.id {
            let takes = !self.is_full();
            if takes {
                self.left -= 1;
                self.bytes_behind += record.text.len();
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
        self.left == 0 || self.bytes_behind >= SIDE_BYTES_MAX
    }
}

/// The ids of the records before another, newest first, and not too many bytes of these.
#[derive(Debug, Default)]
pub(crate) struct Older {
    ids: Vec<Id>,
    bytes: usize,
}

impl Older {
    /// Keeps the id of the next record, and says whether there may be one more.
    pub(crate) fn keep(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
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
pub(crate) fn one(id: Id) -> Request {
    ask(id, behind(id), None, Order::Ascending, Some(1))
}

fn behind(id: Id) -> Id {
    Id::from_bits(id.bits().saturating_add(1))
}

fn ask(from: Id, to: Id, stream: Option<&Labels>, order: Order, limit: Option<u64>) -> Request {
    Request { expr: Expr::All, from, to, stream: stream.cloned(), order, limit }
}

/// The records around one, as they are asked for. Dropping it before its end stops the work.
pub struct Context {
    engine: Arc<Engine>,
    cancel: Cancel,
    around: Around,
    /// `None` at the end.
    search: Option<Search>,
    /// The question for the records behind it, until it is asked.
    behind: Option<Request>,
    is_behind: bool,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("around", &self.around).finish_non_exhaustive()
    }
}

impl Context {
    /// Finds the record and which ones are before it. That may take as long as a query, and so may showing them.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        id: Id,
        before: u64,
        after: u64,
        cancel: &Cancel,
    ) -> Result<Self, RequestError> {
        let finding = engine.limited(cancel);
        let mut stream = None;
        let stats = walk(engine, one(id), &finding, &mut |record| {
            stream = Some(record.labels.clone());
            ControlFlow::Continue(())
        })?;
        let Some(stream) = stream else {
            return Err(match stats.timed_out {
                Some(_) => RequestError::NotAllAnswered(id, stats.partial_reasons().join("; ")),
                None => RequestError::NoRecord(id),
            });
        };
        let mut around = Around::new(id, stream, after, stats);
        if before > 0 {
            let mut older = Older::default();
            let stats = walk(engine, around.older(before), &finding, &mut |record| older.keep(record))?;
            around.stats.add(&stats);
            around.found(older);
        }
        let cancel = engine.limited(cancel);
        let search = Some(engine.search(around.up_to_it(), cancel.clone())?);
        let behind = around.behind_it();
        Ok(Self { engine: Arc::clone(engine), cancel, around, search, behind, is_behind: false })
    }

    /// Shows the next records, as [`Search::show_batch`] does, and gives their number, which is 0 at the end.
    ///
    /// # Errors
    /// [`RequestError::Cancelled`]: there is more than was shown.
    pub fn show_batch(&mut self, see: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) -> Result<usize, RequestError> {
        while let Some(search) = &mut self.search {
            let around = &mut self.around;
            let mut shown = 0;
            let is_over = self.is_behind && around.is_full()
                || 0 == search.show_batch(&mut |record| {
                    let takes = around.takes(record);
                    shown += usize::from(takes);
                    if takes { see(record) } else { ControlFlow::Continue(()) }
                });
            if shown > 0 {
                return Ok(shown);
            }
            if is_over {
                self.go_on()?;
            }
        }
        Ok(0)
    }

    /// Ends a search, and begins the next.
    fn go_on(&mut self) -> Result<(), RequestError> {
        let Some(search) = self.search.take() else { return Ok(()) };
        self.around.stats.add(search.stats());
        if search.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        search.end();
        let behind = self.behind.take().map(|request| self.engine.search(request, self.cancel.clone()));
        (self.search, self.is_behind) = (behind.transpose()?, true);
        Ok(())
    }

    /// Gives back all memory, as [`Search::let_go`] does.
    pub fn let_go(&mut self) {
        self.search.iter_mut().for_each(Search::let_go);
    }

    /// What the answer rests on; complete when [`Self::show_batch`] had none.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.around.stats
    }
}

/// Looks at the records of a search, until there are no more or `see` has enough.
fn walk(
    engine: &Arc<Engine>,
    request: Request,
    cancel: &Cancel,
    see: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>,
) -> Result<Stats, RequestError> {
    let mut search = engine.search(request, cancel.clone())?;
    let mut flow = ControlFlow::Continue(());
    while flow.is_continue() {
        let shown = search.show_batch(&mut |record| {
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
    search.end();
    Ok(stats)
}
