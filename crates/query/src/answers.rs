//! Answers of a node: of its own engine while it is the only node, else merged from the replies of all nodes.
//!
//! Callers do not see which of the two answers. The engine's answer takes the short way: its records go from the scan to
//! the [`RecordSink`] without being encoded for the network.

use std::sync::Arc;

use bucksaw_env::{Tasks, run_blocking};
use bucksaw_record::{Expr, Id};

use crate::count::{Bucketing, Histogram};
use crate::engine::Engine;
use crate::fields::Fields;
use crate::record_stream::{AnswerRecords, StreamSource};
use crate::request::{Cancel, CancelOnDrop, Request, RequestError};
use crate::scatter::Scatter;
use crate::stats::QueryStats;
use crate::tail_stream::TailStream;

/// Answers queries for the whole cluster, at one of its nodes. Cheap to clone.
///
/// Dropping a future or stream before its end cancels the work. A `permit` is dropped when the work has ended, which can
/// be later than that.
#[derive(Clone, Debug)]
pub struct Answers {
    engine: Arc<Engine>,
    tasks: Arc<dyn Tasks>,
    scatter: Option<Arc<Scatter>>,
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

    fn scatter(&self) -> Option<&Arc<Scatter>> {
        self.scatter.as_ref().filter(|scatter| !scatter.is_single_node())
    }

    /// Checks a request, for callers that must know before they start an answer.
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
        let cancel = CancelOnDrop::default();
        let source = match self.scatter() {
            Some(scatter) => StreamSource::ClusterSearch(Box::new(scatter.search(&request)?)),
            None => StreamSource::Search(Box::new(self.engine.search(request, cancel.cancel())?)),
        };
        Ok(AnswerRecords::new(Arc::clone(&self.tasks), cancel, source))
    }

    /// Finds the record `id` and starts an answer with it and up to `before` and `after` records of its stream on either
    /// side, oldest first, at most 4 MB per side.
    ///
    /// # Errors
    /// [`RequestError::RecordNotFound`]; [`RequestError::RecordMaybeMissing`] if a node that may have it did not answer.
    pub async fn context(&self, id: Id, before: u64, after: u64) -> Result<AnswerRecords, RequestError> {
        let cancel = CancelOnDrop::default();
        let source = match self.scatter() {
            Some(scatter) => StreamSource::ClusterContext(Box::new(scatter.context(id, before, after).await?)),
            None => {
                let find = move |engine: &Arc<Engine>, cancel: &Cancel| engine.context(id, before, after, cancel);
                StreamSource::Context(Box::new(self.run(&cancel, (), find).await?))
            }
        };
        Ok(AnswerRecords::new(Arc::clone(&self.tasks), cancel, source))
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
        match self.scatter() {
            Some(scatter) => {
                let _permit = permit;
                scatter.count(&request).await
            }
            None => {
                let count = move |engine: &Arc<Engine>, cancel: &Cancel| engine.count(&request, cancel);
                self.run(&CancelOnDrop::default(), permit, count).await
            }
        }
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
        match self.scatter() {
            Some(scatter) => {
                let _permit = permit;
                scatter.histogram(&request, bucketing, &mut on_progress).await
            }
            None => {
                let count = move |engine: &Arc<Engine>, cancel: &Cancel| {
                    engine.histogram(&request, cancel, bucketing, &mut on_progress)
                };
                self.run(&CancelOnDrop::default(), permit, count).await
            }
        }
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
        match self.scatter() {
            Some(scatter) => {
                let _permit = permit;
                scatter.fields(request).await
            }
            None => {
                let collect = move |engine: &Arc<Engine>, cancel: &Cancel| engine.fields(request, cancel.clone());
                self.run(&CancelOnDrop::default(), permit, collect).await
            }
        }
    }

    /// Follows the records that are accepted from now on.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn tail(&self, expr: &Expr) -> Result<TailStream, RequestError> {
        Ok(match self.scatter() {
            Some(scatter) => TailStream::cluster(scatter.tail(expr)?),
            None => TailStream::local(self.engine.tail(expr)?, Arc::clone(&self.tasks)),
        })
    }

    /// Runs work of the engine on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        cancel: &CancelOnDrop,
        permit: impl Send + 'static,
        work: impl FnOnce(&Arc<Engine>, &Cancel) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, RequestError> {
        let (engine, cancel) = (Arc::clone(&self.engine), cancel.cancel());
        let run = move || {
            let _permit = permit;
            work(&engine, &cancel)
        };
        run_blocking(&self.tasks, run).await.unwrap_or(Err(RequestError::Internal))
    }
}
