//! Counts: no lines are built, and ids are looked at only where they matter.
//!
//! Where no other unit can hold the same record, rows are just counted. Units that may share records (retries, copies)
//! give the ids of their matches, and a record counts once: exactly, by bitmaps of sequence numbers for each producer and
//! stretch of time. These can be neither cut nor put off, so what they take is held by force: some bits for each record,
//! and of few records, for what the queue holds moves on to the shelf within seconds.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::{Id, Millis, Producer};
use bucksaw_scan::{Bound, Plan};
use bucksaw_segment::{Chunk, Reach};
use roaring::RoaringBitmap;

use crate::budget::Share;
use crate::dispatch::Dispatch;
use crate::engine::Engine;
use crate::hits::Ids;
use crate::request::{Cancel, Request, RequestError};
use crate::stats::Stats;
use crate::unit::{Met, Unit, scan, units};

/// More stretches than any screen has columns.
const BUCKETS_MAX: usize = 10_000;

/// Matches of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The first moment.
    pub from: Millis,
    /// The first moment that no longer belongs to it.
    pub to: Millis,
    /// How many records.
    pub count: u64,
}

/// Matches over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One after the other, without gaps.
    pub buckets: Vec<Bucket>,
}

/// How a span is cut into equal stretches.
#[derive(Clone, Copy, Debug)]
struct Grid {
    from: u64,
    width: u64,
    count: usize,
}

impl Grid {
    fn new(request: &Request, buckets: usize) -> Self {
        let count = buckets.clamp(1, BUCKETS_MAX);
        let span = request.to.at().0.saturating_sub(request.from.at().0).max(1);
        let width = span.div_ceil(count as u64);
        Self { from: request.from.at().0, width, count: span.div_ceil(width) as usize }
    }

    fn bucket(&self, id: Id) -> usize {
        let at = id.at().0.saturating_sub(self.from) / self.width;
        usize::try_from(at).unwrap_or(usize::MAX).min(self.count - 1)
    }
}

/// Sequence numbers by bucket and producer. Equal ids have equal times, and so the same bucket.
type Seen = HashMap<(usize, Producer), RoaringBitmap>;

struct Counted {
    counts: Vec<u64>,
    /// The ids of the matches, where others could have the same.
    seen: Seen,
    bytes: u64,
    damaged: Vec<String>,
}

pub(crate) fn run(
    engine: &Arc<Engine>,
    request: &Request,
    cancel: &Cancel,
    buckets: usize,
) -> Result<(Histogram, Stats), RequestError> {
    let started = engine.doors.clock.uptime();
    let plan = Arc::new(Plan::compile(&request.expr)?);
    let mut stats = Stats::default();
    let units = units(engine, request, &plan, &mut stats);
    let grid = Grid::new(request, buckets);
    let shared = shared(&units);
    let request = Arc::new(request.clone());
    let dispatch: Dispatch<Counted> = Dispatch::new(engine, cancel.clone());
    let share = engine.budget.account().force(0);
    let mut total = Total { counts: vec![0; grid.count], seen: Seen::new(), seen_bytes: 0, share, grid };
    let mut in_flight = 0;
    let mut units = units.into_iter().zip(shared).enumerate();
    engine.metrics.in_flight.inc();
    loop {
        while in_flight < dispatch.window()
            && let Some((number, (unit, shared))) = units.next()
        {
            let (request, plan, cancel) = (Arc::clone(&request), Arc::clone(&plan), cancel.clone());
            dispatch.launch(number, move || count_unit(&unit, &request, &plan, &cancel, grid, shared));
            in_flight += 1;
        }
        if in_flight == 0 {
            break;
        }
        let Some((_, counted)) = dispatch.receive() else { break };
        in_flight -= 1;
        match counted {
            Some(counted) => total.add(counted, &mut stats),
            None => drop(stats.damaged.insert("a part that could not be searched because of a bug".to_owned())),
        }
    }
    let cancelled = cancel.is_cancelled();
    stats.matched = total.counts.iter().sum();
    engine.metrics.in_flight.dec();
    engine.metrics.answered(&stats, (engine.doors.clock.uptime() - started).as_secs_f64(), cancelled);
    if cancelled {
        return Err(RequestError::Cancelled);
    }
    Ok((total.histogram(&request), stats))
}

struct Total {
    counts: Vec<u64>,
    seen: Seen,
    seen_bytes: usize,
    share: Share,
    grid: Grid,
}

impl Total {
    fn add(&mut self, counted: Counted, stats: &mut Stats) {
        stats.bytes_scanned += counted.bytes;
        stats.damaged.extend(counted.damaged);
        for (sum, count) in self.counts.iter_mut().zip(counted.counts) {
            *sum += count;
        }
        for ((bucket, producer), found) in counted.seen {
            let seen = self.seen.entry((bucket, producer)).or_default();
            let (count, bytes) = (seen.len(), seen.serialized_size());
            *seen |= found;
            self.seen_bytes += seen.serialized_size() - bytes;
            if let Some(sum) = self.counts.get_mut(bucket) {
                *sum += seen.len() - count;
            }
        }
        self.share.set(self.seen_bytes as u64);
    }

    fn histogram(&self, request: &Request) -> Histogram {
        let end = request.to.at().0;
        let edge =
            |at: usize| Millis(self.grid.from.saturating_add(self.grid.width.saturating_mul(at as u64)).min(end));
        let buckets = self.counts.iter().enumerate();
        Histogram {
            buckets: buckets.map(|(at, count)| Bucket { from: edge(at), to: edge(at + 1), count: *count }).collect(),
        }
    }
}

/// For each unit whether another could hold the same record.
fn shared(units: &[Unit]) -> Vec<bool> {
    let empty = Reach::default();
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|at| units.get(*at).map(Unit::low));
    let reach = |at: usize| units.get(at).and_then(Unit::reach).unwrap_or(&empty);
    let mut shared = vec![false; units.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        open.retain(|other| reach(*other).high >= reach(at).low);
        for other in &open {
            if reach(*other).may_share(reach(at)) {
                for place in [at, *other] {
                    if let Some(shared) = shared.get_mut(place) {
                        *shared = true;
                    }
                }
            }
        }
        open.push(at);
    }
    shared
}

fn count_unit(unit: &Unit, request: &Request, plan: &Plan, cancel: &Cancel, grid: Grid, shared: bool) -> Counted {
    let mut counted = Counted { counts: vec![0; grid.count], seen: Seen::new(), bytes: 0, damaged: Vec::new() };
    let (counts, seen) = (&mut counted.counts, &mut counted.seen);
    // A queue segment may hold a frame twice, after a client sent it again.
    let shared = shared || matches!(unit, Unit::Queue(_));
    counted.bytes = scan(unit, request, plan, cancel, usize::MAX, &mut counted.damaged, &mut |met| {
        let (of_lines, mut all);
        let (chunk, bound) = match met {
            Met::Text(chunk, bound) => (chunk, bound),
            Met::Lines(lines) => {
                (of_lines, all) = (Chunk { labels: lines.labels(), rows: lines.rows(), text: &[] }, Bound::All);
                (&of_lines, &mut all)
            }
        };
        let cancelled = || cancel.is_cancelled();
        let span = chunk.rows.span();
        if let Some((low, high)) = span
            && !shared
            && request.wants(low)
            && request.wants(high)
            && grid.bucket(low) == grid.bucket(high)
        {
            if let Some(count) = counts.get_mut(grid.bucket(low)) {
                *count += u64::from(bound.count(chunk, &cancelled));
            }
            return ControlFlow::Continue(());
        }
        let mut ids = Ids::new(&chunk.rows);
        let mut take = |row| {
            let id = ids.of(row);
            if request.wants(id) {
                if shared {
                    seen.entry((grid.bucket(id), id.producer())).or_default().insert(id.sequence());
                } else if let Some(count) = counts.get_mut(grid.bucket(id)) {
                    *count += 1;
                }
            }
        };
        match bound {
            // There may be no text.
            Bound::All => (0..chunk.rows.count).for_each(take),
            bound => bound.find(chunk, &cancelled, &mut |found| {
                take(found.row);
                ControlFlow::Continue(())
            }),
        }
        ControlFlow::Continue(())
    });
    counted
}
