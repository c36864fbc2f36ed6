//! The records around one, from all nodes.

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::Id;

use super::Scatter;
use super::answer::Answer;
use super::batch::Stretch;
use crate::context::{self, Around, Older};
use crate::hits::RecordRef;
use crate::request::{Request, RequestError};
use crate::stats::Stats;

/// The records around one, as they are asked for. Dropping it ends the work on all nodes.
#[derive(Debug)]
pub struct GatheredContext {
    scatter: Arc<Scatter>,
    around: Around,
    /// `None` at the end.
    answer: Option<Answer>,
    /// The question for the records behind it, until it is asked.
    behind: Option<Request>,
    is_behind: bool,
}

impl GatheredContext {
    pub(super) async fn start(scatter: &Arc<Scatter>, id: Id, before: u64, after: u64) -> Result<Self, RequestError> {
        let mut stream = None;
        let mut keep = |record: RecordRef<'_>| {
            stream = Some(record.labels.clone());
            ControlFlow::Continue(())
        };
        let stats = walk(scatter, &context::one(id), &mut keep).await?;
        let Some(stream) = stream else {
            return Err(match stats.is_partial() {
                true => RequestError::NotAllAnswered(id, stats.partial_reasons().join("; ")),
                false => RequestError::NoRecord(id),
            });
        };
        let mut around = Around::new(id, stream, after, stats);
        if before > 0 {
            let mut older = Older::default();
            let stats = walk(scatter, &around.older(before), &mut |record| older.keep(record)).await?;
            around.stats.add(&stats);
            around.found(older);
        }
        let answer = Some(scatter.search(&around.up_to_it())?);
        let behind = around.behind_it();
        Ok(Self { scatter: Arc::clone(scatter), around, answer, behind, is_behind: false })
    }

    /// The next records, in order; empty at the end. When this is dropped before it is done, nothing is lost.
    ///
    /// # Errors
    /// [`RequestError`] when the nodes cannot be asked for the rest.
    pub async fn next(&mut self) -> Result<Vec<Stretch>, RequestError> {
        while let Some(answer) = &mut self.answer {
            let enough = self.is_behind && self.around.is_full();
            let found = if enough { Vec::new() } else { answer.next().await };
            let taken: Vec<Stretch> = found.iter().flat_map(|stretch| self.around.cut(stretch)).collect();
            if !taken.is_empty() {
                return Ok(taken);
            }
            if found.is_empty() {
                self.around.stats.add(&answer.stats());
                let behind = self.behind.take().map(|request| self.scatter.search(&request));
                (self.answer, self.is_behind) = (behind.transpose()?, true);
            }
        }
        Ok(Vec::new())
    }

    /// What the answer rests on; complete when [`Self::next`] had none.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.around.stats
    }
}

impl Around {
    /// The records of a stretch that are taken.
    fn cut(&mut self, stretch: &Stretch) -> Vec<Stretch> {
        let mut taken: Vec<Stretch> = Vec::new();
        for one in stretch.each() {
            if !one.records().next().is_some_and(|record| self.takes(record)) {
                continue;
            }
            match taken.last_mut() {
                Some(last) if last.goes_on_with(&one) => last.extend(&one),
                _ => taken.push(one),
            }
        }
        taken
    }
}

/// Looks at the records of an answer, until there are no more or `see` has enough.
async fn walk(
    scatter: &Arc<Scatter>,
    request: &Request,
    see: &mut (dyn FnMut(RecordRef<'_>) -> ControlFlow<()> + Send),
) -> Result<Stats, RequestError> {
    let mut answer = scatter.search(request)?;
    loop {
        let found = answer.next().await;
        let enough = found.iter().flat_map(Stretch::records).try_for_each(&mut *see).is_break();
        if found.is_empty() || enough {
            return Ok(answer.stats());
        }
    }
}
