//! Streams of records, from one engine or from all nodes, written to a sink at the pace of its reader.

use std::future::{Future, pending};
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use bucksaw_env::{Tasks, run_blocking};

use crate::context::Context;
use crate::match_buffer::{OwnedRecord, RecordRef, RecordRun};
use crate::request::CancelOnDrop;
use crate::scatter::{BatchSlice, ScatterContext, ScatterSearch};
use crate::search::Search;
use crate::stats::QueryStats;

/// The reader of a [`RecordSink`] is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkClosed;

/// Consumes the records of an answer.
///
/// Records are pushed, then flushed; a flush waits for a slow reader. Within one stream either `flush` or
/// `flush_blocking` is used, the latter on a thread that may block.
pub trait RecordSink: Send + 'static {
    /// Whether [`Self::push_run`] is called instead of [`Self::push`].
    fn takes_runs(&self) -> bool {
        false
    }

    /// Takes the next record; `Break` asks for a flush before another record is pushed.
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()>;

    /// Takes the next records as received, as many at once as are adjacent in memory.
    fn push_run(&mut self, _: RecordRun<'_>) {}

    /// Sends what was pushed.
    fn flush(&mut self) -> impl Future<Output = Result<(), SinkClosed>> + Send;

    /// Sends what was pushed. Calls `release_memory`, at most once, if the reader stalls.
    ///
    /// # Errors
    /// [`SinkClosed`].
    fn flush_blocking(&mut self, release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed>;

    /// Resolves when the reader is gone.
    fn closed(&self) -> impl Future<Output = ()> + Send + 'static;
}

/// Collects all records in memory.
impl RecordSink for Vec<OwnedRecord> {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        Self::push(self, record.to_owned_record());
        ControlFlow::Continue(())
    }

    async fn flush(&mut self) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn flush_blocking(&mut self, _: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }
}

/// Records in the order of the answer, each once. Dropping it stops the work.
#[derive(Debug)]
pub struct AnswerRecords {
    tasks: Arc<dyn Tasks>,
    cancel: CancelOnDrop,
    source: StreamSource,
}

/// Where the records of a stream come from.
#[derive(Debug)]
pub(crate) enum StreamSource {
    Search(Box<Search>),
    Context(Box<Context>),
    ClusterSearch(Box<ScatterSearch>),
    ClusterContext(Box<ScatterContext>),
}

impl AnswerRecords {
    pub(crate) fn new(tasks: Arc<dyn Tasks>, cancel: CancelOnDrop, source: StreamSource) -> Self {
        Self { tasks, cancel, source }
    }

    /// Writes all records to `sink` and returns it with the statistics of the answer. `None` if the answer is not complete
    /// because the reader is gone or the work was cancelled.
    pub async fn write_to<S: RecordSink>(self, sink: S) -> Option<(S, QueryStats)> {
        let Self { tasks, cancel, source } = self;
        match source {
            StreamSource::Search(search) => {
                write_blocking(&tasks, &cancel, sink, |sink| write_search(*search, sink)).await
            }
            StreamSource::Context(context) => {
                write_blocking(&tasks, &cancel, sink, |sink| write_context(*context, sink)).await
            }
            StreamSource::ClusterSearch(search) => write_cluster_search(*search, sink).await,
            StreamSource::ClusterContext(context) => write_cluster_context(*context, sink).await,
        }
    }
}

/// Writes on a blocking thread, and cancels the work when the reader is gone.
async fn write_blocking<S: RecordSink>(
    tasks: &Arc<dyn Tasks>,
    cancel: &CancelOnDrop,
    sink: S,
    write: impl FnOnce(S) -> Option<(S, QueryStats)> + Send + 'static,
) -> Option<(S, QueryStats)> {
    let mut closed = pin!(sink.closed());
    let mut work = pin!(run_blocking(tasks, move || write(sink)));
    tokio::select! {
        biased;
        written = &mut work => return written.flatten(),
        () = &mut closed => cancel.cancel().cancel(),
    }
    // The sink may hold permits, which count until the thread has ended.
    work.await.flatten()
}

fn write_search<S: RecordSink>(mut search: Search, mut sink: S) -> Option<(S, QueryStats)> {
    loop {
        let records = match sink.takes_runs() {
            true => search.visit_runs(&mut |run| sink.push_run(run)),
            false => search.visit_batch(&mut |record| sink.push(record)),
        };
        if records == 0 {
            break;
        }
        sink.flush_blocking(&mut || search.release_memory()).ok()?;
    }
    (!search.is_cancelled()).then(|| (sink, search.stats().clone()))
}

fn write_context<S: RecordSink>(mut context: Context, mut sink: S) -> Option<(S, QueryStats)> {
    while context.visit_batch(&mut |record| sink.push(record)).ok()? > 0 {
        sink.flush_blocking(&mut || context.release_memory()).ok()?;
    }
    Some((sink, context.stats().clone()))
}

async fn write_cluster_search<S: RecordSink>(mut search: ScatterSearch, mut sink: S) -> Option<(S, QueryStats)> {
    let mut closed = pin!(sink.closed());
    loop {
        let slices = tokio::select! {
            biased;
            () = &mut closed => return None,
            slices = search.next() => slices,
        };
        if slices.is_empty() {
            return Some((sink, search.stats()));
        }
        push_slices(&slices, &mut sink).await.ok()?;
    }
}

async fn write_cluster_context<S: RecordSink>(mut context: ScatterContext, mut sink: S) -> Option<(S, QueryStats)> {
    let mut closed = pin!(sink.closed());
    loop {
        let slices = tokio::select! {
            biased;
            () = &mut closed => return None,
            slices = context.next() => slices.ok()?,
        };
        if slices.is_empty() {
            return Some((sink, context.stats().clone()));
        }
        push_slices(&slices, &mut sink).await.ok()?;
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
