//! The records of a whole cluster, in order, each once.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::batch::{Batch, Stretch};
use super::coverage::Coverage;
use super::merge::Merge;
use super::question::Told;
use super::source::{Heard, Source, senseless};
use super::{Repair, Scatter, message::Broken};
use crate::stats::{Stats, Why};

/// Records that are handed out at a time, about.
const BATCH_RECORDS: usize = 2_048;

/// Bytes that are handed out at a time, about.
const BATCH_BYTES: usize = 256 << 10;

/// An answer that comes as it is asked for. Dropping it ends the work on all nodes.
pub struct Answer {
    scatter: Arc<Scatter>,
    /// By node; `None` when it has come to its end.
    sources: Vec<Option<Source>>,
    merge: Merge,
    coverage: Coverage,
    /// What each node told last.
    told: Vec<Told>,
    matched: u64,
    over: bool,
    repair: Option<Arc<dyn Repair>>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("coverage", &self.coverage)
            .field("matched", &self.matched)
            .finish_non_exhaustive()
    }
}

impl Answer {
    pub(super) fn new(
        scatter: &Arc<Scatter>,
        sources: Vec<Option<Source>>,
        mut merge: Merge,
        coverage: Coverage,
    ) -> Self {
        let closed = sources.iter().enumerate().filter(|(_, source)| source.is_none());
        closed.for_each(|(node, _)| merge.close(node));
        if coverage.lacks_store() {
            merge.forget_copies();
        }
        let told = vec![Told::default(); sources.len()];
        let repair = scatter.repair.clone();
        Self { scatter: Arc::clone(scatter), sources, merge, coverage, told, matched: 0, over: false, repair }
    }

    /// The next records, in order; empty at the end. Waits for the first of them, not for many. When this is dropped
    /// before it is done, nothing is lost.
    pub async fn next(&mut self) -> Vec<Stretch> {
        loop {
            let out = self.merge.take(BATCH_RECORDS, BATCH_BYTES);
            if let (Some(repair), Some(thin)) = (&self.repair, self.merge.take_thin()) {
                repair.wanted(thin.low, thin.high);
            }
            if !out.is_empty() {
                self.matched += out.iter().map(|stretch| stretch.len() as u64).sum::<u64>();
                return out;
            }
            if self.merge.is_done() {
                self.finish();
                return out;
            }
            let (node, heard) = self.hear().await;
            self.take(node, heard);
        }
    }

    /// What the answer rests on so far; complete when [`Self::next`] had none.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { matched: self.matched, nodes: self.coverage.nodes(), ..Stats::default() };
        for (node, told) in self.told.iter().enumerate() {
            told.add_to(&mut stats, &self.coverage.name(node));
        }
        stats
    }

    /// The next message of a node that must say something before the answer goes on.
    async fn hear(&mut self) -> (usize, Result<Heard, Why>) {
        let (sources, merge) = (&mut self.sources, &self.merge);
        poll_fn(|context| {
            for node in merge.awaited() {
                if let Some(Some(source)) = sources.get_mut(node)
                    && let Poll::Ready(heard) = source.poll_next(context)
                {
                    return Poll::Ready((node, heard));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn take(&mut self, node: usize, heard: Result<Heard, Why>) {
        let taken = heard.and_then(|heard| match heard {
            Heard::Head(told) | Heard::Progress(told) => {
                self.coverage.hear(node, &told)?;
                self.merge.reach(node, told.place(self.merge.order()));
                self.tell(node, told);
                Ok(())
            }
            Heard::Batch(content) => {
                let batch = Batch::decode(&content).map_err(senseless)?;
                self.merge.push(node, batch).map_err(senseless)
            }
            Heard::End(told) => {
                self.tell(node, told);
                self.close(node);
                Ok(())
            }
            Heard::Cells(_) => Err(senseless(Broken("counts were not asked for"))),
        });
        if let Err(why) = taken {
            self.coverage.lose(node, why);
            if self.coverage.lacks_store() {
                self.merge.forget_copies();
            }
            self.close(node);
        }
    }

    fn tell(&mut self, node: usize, told: Told) {
        if let Some(last) = self.told.get_mut(node).filter(|_| !told.is_sign_of_life()) {
            *last = told;
        }
    }

    fn close(&mut self, node: usize) {
        self.merge.close(node);
        if let Some(source) = self.sources.get_mut(node) {
            *source = None;
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            // The others are not needed any more: that ends their work.
            self.sources.iter_mut().for_each(|source| *source = None);
            self.scatter.note(&self.coverage.nodes());
        }
    }
}
