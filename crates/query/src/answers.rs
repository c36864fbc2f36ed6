//! Answers of a node: of its own engine while it is the only node, else merged from the replies of all nodes.
//!
//! Callers need not distinguish the two. Only replies of several nodes are encoded for the network.

use std::sync::Arc;

use bucksaw_env::{Tasks, run_blocking};
use bucksaw_record::{Expr, Id, LabelScope};

use crate::context::{ContextSink, ContextWindow, PrecedingIds, record_request};
use crate::count::{Bucketing, Histogram};
use crate::engine::Engine;
use crate::fields::{FieldCollector, Fields, newest_records_request};
use crate::group_sample::{GroupBy, GroupSampler};
use crate::grouping::Grouping;
use crate::match_buffer::OwnedRecord;
use crate::record_stream::{RecordSink, StreamSource};
use crate::request::{Cancel, CancelOnDrop, Request, RequestError};
use crate::scatter::Scatter;
use crate::stats::QueryStats;
use crate::streams::{Streams, is_about_labels};
use crate::tail::tail_request;
use crate::tail_stream::TailStream;
use crate::unknown_fields::{FieldFinder, UnknownField, sample_request};

/// Buckets of a count over several nodes. A node forgets the ids of a bucket when all nodes are past it.
const CLUSTER_COUNT_BUCKETS: usize = 64;

/// Answers queries for the whole cluster, at one of its nodes. Cheap to clone.
///
/// Dropping a future or stream before its end cancels the work. A `permit` is dropped when the work has ended, which
/// may be later.
#[derive(Clone, Debug)]
pub struct Answers {
    engine: Arc<Engine>,
    tasks: Arc<dyn Tasks>,
    scatter: Option<Arc<Scatter>>,
}

/// Records in the order of the answer, each once. Dropping it stops the work.
pub struct AnswerRecords {
    answers: Answers,
    cancel: CancelOnDrop,
    stream: StreamSource,
    scope: Option<LabelScope>,
    /// Selects the records of a context, and has the request for the rest of it.
    window: Option<ContextWindow>,
}

impl Answers {
    /// Answers from one engine. `tasks` runs its scans, and runs sinks that block.
    #[must_use]
    pub fn new(engine: Arc<Engine>, tasks: Arc<dyn Tasks>) -> Self {
        Self { engine, tasks, scatter: None }
    }

    /// Queries all nodes whenever this node is not the only one.
    #[must_use]
    pub fn with_scatter(self, scatter: Arc<Scatter>) -> Self {
        Self { scatter: Some(scatter), ..self }
    }

    /// The engine of this node.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What runs its scans.
    #[must_use]
    pub fn tasks(&self) -> &Arc<dyn Tasks> {
        &self.tasks
    }

    fn scatter(&self) -> Option<&Arc<Scatter>> {
        self.scatter.as_ref().filter(|scatter| !scatter.is_single_node())
    }

    /// Checks a request before an answer is started.
    ///
    /// # Errors
    /// [`RequestError::Expression`], [`RequestError::ExpressionTooLong`].
    pub fn check(&self, request: &Request) -> Result<(), RequestError> {
        match self.scatter() {
            Some(scatter) => scatter.check_request(request),
            None => self.engine.check_expression(&request.expr),
        }
    }

    /// Starts a search over all records accepted so far.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn search(&self, request: Request) -> Result<AnswerRecords, RequestError> {
        let cancel = self.limited_cancel();
        let scope = request.scope.clone();
        let stream = self.start(request, &cancel)?;
        Ok(AnswerRecords { answers: self.clone(), cancel, stream, scope, window: None })
    }

    /// Finds the record `id` and starts an answer with its context, oldest first: up to `before` and `after` records of
    /// its stream, at most 4 MB on each side. A record outside of `scope` is not found; see [`Request::scope`].
    ///
    /// # Errors
    /// [`RequestError::RecordNotFound`]; [`RequestError::RecordMaybeMissing`] if not all was searched.
    pub async fn context(
        &self,
        id: Id,
        before: u64,
        after: u64,
        scope: Option<LabelScope>,
    ) -> Result<AnswerRecords, RequestError> {
        let cancel = self.limited_cancel();
        let (found, stats) =
            self.collect(record_request(id, scope.clone()), &cancel, Vec::<OwnedRecord>::new()).await?;
        let Some(record) = found.into_iter().next() else {
            return Err(match stats.is_partial() {
                true => RequestError::RecordMaybeMissing(id, stats.partial_reasons().join("; ")),
                false => RequestError::RecordNotFound(id),
            });
        };
        let mut window = ContextWindow::new(id, (record.labels, scope.clone()), after, stats);
        if before > 0 {
            let (ids, stats) = self.collect(window.request_before(before), &cancel, PrecedingIds::default()).await?;
            window.set_before(ids, &stats);
        }
        // The reader has the full time limit.
        let cancel = self.limited_cancel();
        let stream = self.start(window.request_through_record(), &cancel)?;
        Ok(AnswerRecords { answers: self.clone(), cancel, stream, scope, window: Some(window) })
    }

    /// The exact number of distinct matching records.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn count(
        &self,
        request: Request,
        permit: impl Send + 'static,
    ) -> Result<(u64, QueryStats), RequestError> {
        let buckets = if self.scatter().is_some() { CLUSTER_COUNT_BUCKETS } else { 1 };
        let (_, stats) =
            self.histogram(request, Bucketing { buckets, grouping: Grouping::None }, permit, |_, _| {}).await?;
        Ok((stats.matched, stats))
    }

    /// The exact number of distinct matching records per bucket of the request's time. A few times per second,
    /// `on_progress` gets the counts so far and the fraction of the work that is done.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn histogram(
        &self,
        request: Request,
        bucketing: Bucketing,
        permit: impl Send + 'static,
        mut on_progress: impl FnMut(&Histogram, f64) + Send + 'static,
    ) -> Result<(Histogram, QueryStats), RequestError> {
        let scope = request.scope.clone();
        let shown = |(histogram, stats): (Histogram, QueryStats)| (histogram, stats.within(scope.as_ref()));
        if let Some(scatter) = self.scatter() {
            let _permit = permit;
            return scatter.histogram(&request, bucketing, &mut on_progress).await.map(shown);
        }
        let cancel = CancelOnDrop::default();
        let (engine, stop) = (Arc::clone(&self.engine), cancel.0.clone());
        let count = move || {
            let _permit = permit;
            engine.histogram(request, stop, bucketing, &mut on_progress)
        };
        run_blocking(&self.tasks, count).await.unwrap_or(Err(RequestError::Internal)).map(shown)
    }

    /// The grouping of a histogram by the most frequent values, or streams, of the newest matching records; at most ten.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn choose_groups(
        &self,
        request: Request,
        by: GroupBy,
        permit: impl Send + 'static,
    ) -> Result<Grouping, RequestError> {
        let request = newest_records_request(request);
        let sampler = GroupSampler::new(by, &self.engine, permit);
        let (sampler, _) = self.collect(request, &self.limited_cancel(), sampler).await?;
        Ok(sampler.finish())
    }

    /// The fields and labels of the newest matching records, with their most frequent values.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn fields(
        &self,
        request: Request,
        permit: impl Send + 'static,
    ) -> Result<(Fields, QueryStats), RequestError> {
        let request = newest_records_request(request);
        let sink = (FieldCollector::new(&self.engine), permit);
        let ((collector, _), stats) = self.collect(request, &self.limited_cancel(), sink).await?;
        Ok((collector.finish(stats.matched), stats))
    }

    /// The fields of the request's expression that none of the newest records of its time has. For an answer without
    /// records: it examines up to a thousand.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn unknown_fields(
        &self,
        request: &Request,
        permit: impl Send + 'static,
    ) -> Result<Vec<UnknownField>, RequestError> {
        let Some(sample) = sample_request(request) else { return Ok(Vec::new()) };
        let finder = FieldFinder::new(&request.expr, permit);
        let (finder, _) = self.collect(sample, &self.limited_cancel(), finder).await?;
        Ok(finder.finish())
    }

    /// The streams with records in the time range, and their numbers of records, without reading a line. The expression
    /// selects streams by their labels; a stream without a label has no such field.
    ///
    /// # Errors
    /// [`RequestError::NotAboutLabels`] if the expression has terms on text; others as [`Self::check`].
    pub async fn streams(
        &self,
        request: Request,
        permit: impl Send + 'static,
    ) -> Result<(Streams, QueryStats), RequestError> {
        if !is_about_labels(&request.expr) {
            return Err(RequestError::NotAboutLabels);
        }
        let scope = request.scope.clone();
        let shown = |(streams, stats): (Streams, QueryStats)| (streams, stats.within(scope.as_ref()));
        if let Some(scatter) = self.scatter() {
            let _permit = permit;
            return scatter.streams(&request).await.map(shown);
        }
        let cancel = self.limited_cancel();
        let (engine, stop) = (Arc::clone(&self.engine), cancel.0.clone());
        let list = move || {
            let _permit = permit;
            engine.stream_tallies(&request, &stop).map(|(tallies, stats)| (tallies.finish(1), stats))
        };
        run_blocking(&self.tasks, list).await.unwrap_or(Err(RequestError::Internal)).map(shown)
    }

    /// Follows the records of `scope` that are accepted from now on; see [`Request::scope`].
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn tail(&self, expr: &Expr, scope: Option<LabelScope>) -> Result<TailStream, RequestError> {
        let is_scoped = scope.is_some();
        let request = tail_request(expr.clone(), scope);
        let tail = match self.scatter() {
            Some(scatter) => TailStream::cluster(scatter.tail(&request)?),
            None => TailStream::local(self.engine.tail(request)?.with_recent_ids(), Arc::clone(&self.tasks)),
        };
        Ok(tail.scoped_if(is_scoped))
    }

    /// Cancels on drop, and has the time limit of this node's queries.
    fn limited_cancel(&self) -> CancelOnDrop {
        CancelOnDrop(self.engine.with_time_limit(&Cancel::default()))
    }

    fn start(&self, request: Request, cancel: &CancelOnDrop) -> Result<StreamSource, RequestError> {
        Ok(match self.scatter() {
            Some(scatter) => StreamSource::Cluster(Box::new(scatter.search(&request)?)),
            None => StreamSource::Local(Box::new(self.engine.search(request, cancel.0.clone())?)),
        })
    }

    /// Searches and fills a sink.
    async fn collect<S: RecordSink>(
        &self,
        request: Request,
        cancel: &CancelOnDrop,
        sink: S,
    ) -> Result<(S, QueryStats), RequestError> {
        let scope = request.scope.clone();
        let written = self.start(request, cancel)?.write_to(&self.tasks, cancel, sink).await;
        let shown = |(sink, stats): (S, QueryStats)| (sink, stats.within(scope.as_ref()));
        written.map(shown).ok_or_else(|| match cancel.0.is_cancelled() {
            true => RequestError::Cancelled,
            false => RequestError::Internal,
        })
    }
}

impl AnswerRecords {
    /// Writes all records to `sink` and returns it with the statistics of the answer. `None` if the answer is not complete
    /// because the reader is gone or the work was cancelled.
    pub async fn write_to<S: RecordSink>(self, sink: S) -> Option<(S, QueryStats)> {
        let Self { answers, cancel, stream, scope, window } = self;
        let shown = |stats: QueryStats| stats.within(scope.as_ref());
        let Some(window) = window else {
            let (sink, stats) = stream.write_to(&answers.tasks, &cancel, sink).await?;
            return Some((sink, shown(stats)));
        };
        let sink = ContextSink { window, sink, is_after: false };
        let (mut context, mut stats) = stream.write_to(&answers.tasks, &cancel, sink).await?;
        if let Some(request) = context.window.request_after() {
            context.window.stats.add(&stats);
            context.is_after = true;
            (context, stats) = answers.collect(request, &cancel, context).await.ok()?;
        }
        context.window.stats.add(&stats);
        Some((context.sink, shown(context.window.stats)))
    }
}
