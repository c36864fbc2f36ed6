//! Sinks of records, and the searches that fill them at the pace of their readers.

use std::future::{Future, pending, ready};
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use bucksaw_env::{Tasks, run_blocking};

use crate::match_buffer::{OwnedRecord, RecordRef, RecordRun};
use crate::request::CancelOnDrop;
use crate::scatter::{BatchSlice, ScatterSearch};
use crate::search::Search;
use crate::stats::QueryStats;

/// The reader of a [`RecordSink`] is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkClosed;

/// Consumes the records of an answer.
///
/// Records are pushed, then flushed; a flush waits for a slow reader. Within one search either `flush` or
/// `flush_blocking` is used, the latter on a thread that may block.
pub trait RecordSink: Send + 'static {
    /// Whether [`Self::push_run`] is called instead of [`Self::push`].
    fn takes_runs(&self) -> bool {
        false
    }

    /// Takes the next record; after `Break` the caller flushes before it pushes another record.
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()>;

    /// Takes the next records as received, as many at once as are adjacent in memory.
    fn push_run(&mut self, _: RecordRun<'_>) {}

    /// Whether the sink needs no more records, so that the search ends. Called after each flush.
    fn is_full(&self) -> bool {
        false
    }

    /// Sends what was pushed.
    fn flush(&mut self) -> impl Future<Output = Result<(), SinkClosed>> + Send {
        ready(Ok(()))
    }

    /// Sends what was pushed. Calls `release_memory`, at most once, if the reader stalls.
    ///
    /// # Errors
    /// [`SinkClosed`].
    fn flush_blocking(&mut self, _release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        Ok(())
    }

    /// Resolves when the reader is gone.
    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }
}

/// Collects all records in memory.
impl RecordSink for Vec<OwnedRecord> {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        Self::push(self, record.to_owned_record());
        ControlFlow::Continue(())
    }
}

/// A search that has started, of this node or of all.
pub(crate) enum StreamSource {
    Local(Box<Search>),
    Cluster(Box<ScatterSearch>),
}

impl StreamSource {
    /// Writes records to `sink` until it is full, and returns it with the statistics of the search. `None` if the reader is
    /// gone or the work was cancelled.
    pub(crate) async fn write_to<S: RecordSink>(
        self,
        tasks: &Arc<dyn Tasks>,
        cancel: &CancelOnDrop,
        sink: S,
    ) -> Option<(S, QueryStats)> {
        let search = match self {
            Self::Local(search) => search,
            Self::Cluster(search) => return write_cluster(*search, sink).await,
        };
        let mut closed = pin!(sink.closed());
        let mut work = pin!(run_blocking(tasks, move || write_local(*search, sink)));
        tokio::select! {
            biased;
            written = &mut work => return written.flatten(),
            () = &mut closed => cancel.0.cancel(),
        }
        // The sink may hold permits, which count until the thread has ended.
        work.await.flatten()
    }
}

fn write_local<S: RecordSink>(mut search: Search, mut sink: S) -> Option<(S, QueryStats)> {
    loop {
        let records = match sink.takes_runs() {
            true => search.visit_runs(&mut |run| sink.push_run(run)),
            false => search.visit_batch(&mut |record| sink.push(record)),
        };
        if records > 0 {
            sink.flush_blocking(&mut || search.release_memory()).ok()?;
        }
        if search.is_cancelled() {
            return None;
        }
        if records == 0 || sink.is_full() {
            search.finish();
            return Some((sink, search.stats.clone()));
        }
    }
}

async fn write_cluster<S: RecordSink>(mut search: ScatterSearch, mut sink: S) -> Option<(S, QueryStats)> {
    let mut closed = pin!(sink.closed());
    loop {
        let slices = tokio::select! {
            biased;
            () = &mut closed => return None,
            slices = search.next() => slices,
        };
        if !slices.is_empty() {
            push_slices(&slices, &mut sink).await.ok()?;
        }
        if slices.is_empty() || sink.is_full() {
            return Some((sink, search.stats()));
        }
    }
}

async fn push_slices(slices: &[BatchSlice], sink: &mut impl RecordSink) -> Result<(), SinkClosed> {
    if sink.takes_runs() {
        slices.iter().for_each(|slice| slice.visit_runs(&mut |run| sink.push_run(run)));
    } else {
        for record in slices.iter().flat_map(BatchSlice::records) {
            if sink.push(record).is_break() {
                sink.flush().await?;
            }
        }
    }
    sink.flush().await
}
