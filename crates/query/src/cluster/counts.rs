//! Counts over a whole cluster: each node gives the ids of its matches by cell, and each id counts once.
//!
//! Nodes give them in the order of time and tell how far they have come, so the ids of a stretch of time are forgotten as
//! soon as all nodes are past it. A node that is far ahead of the others is left waiting when the ids take much memory.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::coverage::Coverage;
use super::message::Broken;
use super::question::{Question, Told};
use super::serve::COUNT;
use super::source::{Heard, Source, senseless};
use super::{Scatter, cells};
use crate::count::{Division, Grid, Histogram, Total};
use crate::request::{Request, RequestError};
use crate::stats::{Stats, Why};

/// How often who waits for a histogram is shown how far it has come.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Stretches of a mere count, which bound the ids that are kept at a time.
const COUNT_BUCKETS: usize = 64;

/// Of the memory of queries, the part for ids beyond which nodes that are ahead wait for the others.
const AHEAD_PART: u64 = 4;

#[derive(Default)]
struct Lane {
    source: Option<Source>,
    told: Told,
    /// Stretches that it will bring nothing more for.
    passed: usize,
    done: f64,
}

struct Counts {
    lanes: Vec<Lane>,
    coverage: Coverage,
    grid: Grid,
    total: Total,
    /// Stretches that all are past.
    passed: usize,
    /// Memory for ids beyond which nodes that are ahead wait for the others.
    ahead_bytes_max: usize,
}

impl Scatter {
    /// The exact number of different records that match.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn count(self: &Arc<Self>, request: &Request) -> Result<(u64, Stats), RequestError> {
        let division = Division { buckets: COUNT_BUCKETS, by_level: false };
        let (_, stats) = self.histogram(request, division, &mut |_, _| {}).await?;
        Ok((stats.matched, stats))
    }

    /// The exact number of different records that match, by equal stretches of the request's time. While it is being
    /// counted, `see` is shown some times a second what was counted so far, the oldest first, and which part of the work
    /// is done.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn histogram(
        self: &Arc<Self>,
        request: &Request,
        division: Division,
        see: &mut (dyn FnMut(&Histogram, f64) + Send),
    ) -> Result<(Histogram, Stats), RequestError> {
        let question = Question::new(request).divided(division);
        let (sources, coverage) = self.ask(COUNT, &question, request)?;
        let grid = Grid::new(request, division);
        let total = Total::new(grid, self.serving.engine().budget.account().force(0));
        let lanes = sources.into_iter().map(|source| Lane { source, ..Lane::default() }).collect();
        let ahead_bytes_max = usize::try_from(self.engine().config.held_bytes_max / AHEAD_PART).unwrap_or(usize::MAX);
        let mut counts = Counts { lanes, coverage, grid, total, passed: 0, ahead_bytes_max };
        let clock = &self.watch.clock;
        let mut shown = clock.uptime();
        while let Some((node, heard)) = counts.hear().await {
            counts.take(node, heard);
            let now = clock.uptime();
            if now - shown >= SHOW_EVERY {
                shown = now;
                see(&counts.total.histogram(request), counts.done());
            }
        }
        let nodes = counts.coverage.nodes();
        self.note(&nodes);
        let mut stats = Stats { matched: counts.total.sum(), nodes, ..Stats::default() };
        for (node, lane) in counts.lanes.iter().enumerate() {
            lane.told.add_to(&mut stats, &counts.coverage.name(node));
        }
        Ok((counts.total.histogram(request), stats))
    }
}

impl Counts {
    /// The next message of a node; `None` when all have come to their end.
    async fn hear(&mut self) -> Option<(usize, Result<Heard, Why>)> {
        if self.lanes.iter().all(|lane| lane.source.is_none()) {
            return None;
        }
        let crowded = self.total.seen_bytes() > self.ahead_bytes_max;
        let (lanes, passed) = (&mut self.lanes, self.passed);
        let heard = poll_fn(|context| {
            for (node, lane) in lanes.iter_mut().enumerate() {
                let ahead = crowded && lane.passed > passed;
                if let Some(source) = lane.source.as_mut().filter(|_| !ahead)
                    && let Poll::Ready(heard) = source.poll_next(context)
                {
                    return Poll::Ready((node, heard));
                }
            }
            Poll::Pending
        });
        Some(heard.await)
    }

    fn take(&mut self, node: usize, heard: Result<Heard, Why>) {
        let Some(lane) = self.lanes.get_mut(node) else { return };
        let taken = heard.and_then(|heard| match heard {
            Heard::Head(told) | Heard::Progress(told) => {
                self.coverage.hear(node, &told)?;
                if !told.is_sign_of_life() {
                    let passed = usize::try_from(told.buckets_done).unwrap_or(usize::MAX);
                    lane.passed = lane.passed.max(passed.min(self.grid.buckets()));
                    lane.done = lane.done.max(told.done.clamp(0.0, 1.0));
                    lane.told = told;
                }
                Ok(())
            }
            Heard::Cells(content) => {
                let cells = cells::decode(&content, self.grid.cells()).map_err(senseless)?;
                let first = lane.passed * self.grid.levels();
                if cells.iter().any(|((cell, _), _)| *cell < first) {
                    return Err(senseless(Broken("a count is of what was counted before")));
                }
                self.total.add_ids(cells);
                Ok(())
            }
            Heard::End(told) => {
                (lane.told, lane.source) = (told, None);
                Ok(())
            }
            Heard::Batch(_) => Err(senseless(Broken("records were not asked for"))),
        });
        if let Err(why) = taken {
            lane.source = None;
            self.coverage.lose(node, why);
        }
        let open = self.lanes.iter().filter(|lane| lane.source.is_some());
        let passed = open.map(|lane| lane.passed).min().unwrap_or(self.grid.buckets());
        if passed > self.passed {
            self.passed = passed;
            self.total.forget(passed);
        }
    }

    /// Which part of the work is done, on all nodes together.
    fn done(&self) -> f64 {
        let done = |lane: &Lane| if lane.source.is_some() { lane.done } else { 1.0 };
        self.lanes.iter().map(done).sum::<f64>() / self.lanes.len().max(1) as f64
    }
}
