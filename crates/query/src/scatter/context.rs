//! The records around one, from all nodes.

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::Id;

use super::batch::BatchSlice;
use super::requester::Scatter;
use super::search::ScatterSearch;
use crate::context::{self, ContextWindow, PrecedingIds};
use crate::match_buffer::RecordRef;
use crate::request::{Request, RequestError};
use crate::stats::QueryStats;

/// The records around one, as they are asked for. Dropping it ends the work on all nodes.
#[derive(Debug)]
pub struct ScatterContext {
    scatter: Arc<Scatter>,
    window: ContextWindow,
    /// `None` at the end.
    answer: Option<ScatterSearch>,
    /// The question for the records behind it, until it is asked.
    after: Option<Request>,
    is_after: bool,
}

impl Scatter {
    /// Begins an answer with the record `id` and those around it in its stream, oldest first, as [`Engine::context`] does.
    ///
    /// # Errors
    /// [`RequestError::NoRecord`] when there is none; [`RequestError::NotAllAnswered`] when a node may have it that did not
    /// answer.
    pub async fn context(self: &Arc<Self>, id: Id, before: u64, after: u64) -> Result<ScatterContext, RequestError> {
        ScatterContext::start(self, id, before, after).await
    }
}

impl ScatterContext {
    async fn start(scatter: &Arc<Scatter>, id: Id, before: u64, after: u64) -> Result<Self, RequestError> {
        let mut stream = None;
        let mut keep = |record: RecordRef<'_>| {
            stream = Some(record.labels.clone());
            ControlFlow::Continue(())
        };
        let stats = for_each_record(scatter, &context::record_request(id), &mut keep).await?;
        let Some(stream) = stream else {
            return Err(match stats.is_partial() {
                true => RequestError::RecordMaybeMissing(id, stats.partial_reasons().join("; ")),
                false => RequestError::RecordNotFound(id),
            });
        };
        let mut around = ContextWindow::new(id, stream, after, stats);
        if before > 0 {
            let mut older = PrecedingIds::default();
            let stats =
                for_each_record(scatter, &around.request_before(before), &mut |record| older.push(record)).await?;
            around.stats.add(&stats);
            around.set_before(older);
        }
        let answer = Some(scatter.search(&around.request_through_record())?);
        let behind = around.request_after();
        Ok(Self { scatter: Arc::clone(scatter), window: around, answer, after: behind, is_after: false })
    }

    /// The next records, in order; empty at the end. When this is dropped before it is done, nothing is lost.
    ///
    /// # Errors
    /// [`RequestError`] when the nodes cannot be asked for the rest.
    pub async fn next(&mut self) -> Result<Vec<BatchSlice>, RequestError> {
        while let Some(answer) = &mut self.answer {
            let enough = self.is_after && self.window.is_full();
            let found = if enough { Vec::new() } else { answer.next().await };
            let taken: Vec<BatchSlice> = found.iter().flat_map(|stretch| self.window.select(stretch)).collect();
            if !taken.is_empty() {
                return Ok(taken);
            }
            if found.is_empty() {
                self.window.stats.add(&answer.stats());
                let behind = self.after.take().map(|request| self.scatter.search(&request));
                (self.answer, self.is_after) = (behind.transpose()?, true);
            }
        }
        Ok(Vec::new())
    }

    /// What the answer rests on; complete when [`Self::next`] had none.
    #[must_use]
    pub fn stats(&self) -> &QueryStats {
        &self.window.stats
    }
}

impl ContextWindow {
    /// The records of a stretch that are taken.
    fn select(&mut self, stretch: &BatchSlice) -> Vec<BatchSlice> {
        let mut taken: Vec<BatchSlice> = Vec::new();
        for one in stretch.split_records() {
            if !one.records().next().is_some_and(|record| self.accept(record)) {
                continue;
            }
            match taken.last_mut() {
                Some(last) if last.is_adjacent_to(&one) => last.extend(&one),
                _ => taken.push(one),
            }
        }
        taken
    }
}

/// Looks at the records of an answer, until there are no more or `see` has enough.
async fn for_each_record(
    scatter: &Arc<Scatter>,
    request: &Request,
    see: &mut (dyn FnMut(RecordRef<'_>) -> ControlFlow<()> + Send),
) -> Result<QueryStats, RequestError> {
    let mut answer = scatter.search(request)?;
    loop {
        let found = answer.next().await;
        let enough = found.iter().flat_map(BatchSlice::records).try_for_each(&mut *see).is_break();
        if found.is_empty() || enough {
            return Ok(answer.stats());
        }
    }
}
