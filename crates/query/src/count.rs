//! Counts: no lines are built, and ids are looked at only where they matter.
//!
//! Where no other unit can hold the same record, rows are just counted. Units that may share records (retries, copies)
//! give the ids of their matches, and a record counts once: exactly, by bitmaps of sequence numbers for each producer and
//! stretch of time. These can be neither cut nor put off, so what they take is held by force: some bits for each record,
//! and of few records, for what the queue holds moves on to the store within seconds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::{Id, Millis, Producer};
use bucksaw_scan::{BoundPlan, Level, Plan};
use bucksaw_segment::{Chunk, RecordSummary, Rows};
use roaring::RoaringBitmap;

use crate::dispatch::Dispatch;
use crate::engine::Engine;
use crate::match_buffer::RowIds;
use crate::partial_result::poll_cancel;
use crate::request::{Cancel, Request, RequestError};
use crate::result_budget::ResultReservation;
use crate::snapshot::units;
use crate::stats::QueryStats;
use crate::text_scan::MatchChunk;
use crate::unit::{Unit, scan};

/// More stretches than any screen has columns.
const BUCKETS_MAX: usize = 10_000;

/// A unit is often counted in a fraction of a millisecond, and who takes the results competes for the cores with those who
/// count: on a busy machine it comes back only after several of them.
const JOBS_PER_THREAD: usize = 8;

/// How often who waits for a histogram is shown how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How matches are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucketing {
    /// At most so many stretches of equal length.
    pub buckets: usize,
    /// Whether each stretch is divided by the records' level. Each matching text is looked at then, where counting alone
    /// needs none of them.
    pub by_level: bool,
}

/// Matches of a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The first moment.
    pub from: Millis,
    /// The first moment that no longer belongs to it.
    pub to: Millis,
    /// How many records.
    pub count: u64,
    /// How many of them have each level, in the order of [`Level::ALL`]; the rest have none. Only where that was asked for.
    pub levels: Option<[u64; Level::ALL.len()]>,
}

/// Matches over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One after the other, without gaps.
    pub buckets: Vec<Bucket>,
}

/// How a span is cut into equal stretches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketGrid {
    from: u64,
    width: u64,
    buckets: usize,
    by_level: bool,
}

impl BucketGrid {
    pub(crate) fn new(request: &Request, division: Bucketing) -> Self {
        let count = division.buckets.clamp(1, BUCKETS_MAX);
        let span = request.to.time().0.saturating_sub(request.from.time().0).max(1);
        let width = span.div_ceil(count as u64);
        let buckets = span.div_ceil(width) as usize;
        Self { from: request.from.time().0, width, buckets, by_level: division.by_level }
    }

    fn bucket(&self, id: Id) -> usize {
        let at = id.time().0.saturating_sub(self.from) / self.width;
        usize::try_from(at).unwrap_or(usize::MAX).min(self.buckets - 1)
    }

    /// Cells of a bucket: those without a level, then one for each.
    pub(crate) fn levels(&self) -> usize {
        if self.by_level { 1 + Level::ALL.len() } else { 1 }
    }

    /// Stretches.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }

    /// All cells.
    pub(crate) fn cells(&self) -> usize {
        self.buckets * self.levels()
    }

    fn cell(&self, id: Id, level: Option<Level>) -> usize {
        self.bucket(id) * self.levels() + level.map_or(0, |level| 1 + level as usize)
    }
}

/// Sequence numbers by cell and producer. Equal ids are the same record, and so in the same cell.
type SequenceSets = HashMap<(usize, Producer), RoaringBitmap>;

struct UnitCount {
    counts: Vec<u64>,
    /// The ids of the matches, where others could have the same.
    ids: SequenceSets,
    bytes: u64,
    damaged: Vec<String>,
}

impl Engine {
    /// The exact number of distinct matching records.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn count(self: &Arc<Self>, request: &Request, cancel: &Cancel) -> Result<(u64, QueryStats), RequestError> {
        let bucketing = Bucketing { buckets: 1, by_level: false };
        let (histogram, stats) = self.histogram(request, cancel, bucketing, &mut |_, _| {})?;
        Ok((histogram.buckets.iter().map(|bucket| bucket.count).sum(), stats))
    }

    /// The exact number of distinct matching records per bucket of the request's time. A few times per second,
    /// `on_progress` gets the counts so far and the fraction of the work that is done.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn histogram(
        self: &Arc<Self>,
        request: &Request,
        cancel: &Cancel,
        bucketing: Bucketing,
        on_progress: &mut dyn FnMut(&Histogram, f64),
    ) -> Result<(Histogram, QueryStats), RequestError> {
        run(self, request, cancel, bucketing, on_progress)
    }
}

fn run(
    engine: &Arc<Engine>,
    request: &Request,
    cancel: &Cancel,
    bucketing: Bucketing,
    on_progress: &mut dyn FnMut(&Histogram, f64),
) -> Result<(Histogram, QueryStats), RequestError> {
    let started = engine.env.clock.uptime();
    let plan = Arc::new(Plan::compile(&request.expr)?);
    let mut stats = QueryStats::default();
    let units = units(engine, request, &plan, &mut stats);
    let grid = BucketGrid::new(request, bucketing);
    let shared = units_sharing_ids(&units);
    let request = Arc::new(request.clone());
    let cancel = &engine.with_time_limit(cancel);
    let dispatch: Dispatch<UnitCount> = Dispatch::new(engine, cancel.clone(), JOBS_PER_THREAD);
    let share = engine.result_budget.account().force_reserve(0);
    let mut total = CountTotal::new(grid, share);
    let (mut in_flight, mut done, all, mut shown) = (0, 0, units.len(), started);
    let mut units = units.into_iter().zip(shared).enumerate();
    engine.metrics.in_flight.inc();
    loop {
        while in_flight < dispatch.in_flight_max()
            && units.len() > 0
            && !cancel.should_stop()
            && let Some((number, (unit, shared))) = units.next()
        {
            let (request, plan, cancel) = (Arc::clone(&request), Arc::clone(&plan), cancel.clone());
            dispatch
                .submit(number, unit.scan_bytes(), move || count_unit(&unit, &request, &plan, &cancel, grid, shared));
            in_flight += 1;
        }
        if in_flight == 0 {
            break;
        }
        let Some((_, counted)) = dispatch.receive() else { break };
        (in_flight, done) = (in_flight - 1, done + 1);
        match counted {
            Some(counted) => total.add(counted, &mut stats),
            None => drop(stats.damaged.insert("a segment could not be searched: internal error".to_owned())),
        }
        let now = engine.env.clock.uptime();
        if done < all && now - shown >= PROGRESS_INTERVAL {
            shown = now;
            on_progress(&total.histogram(&request), done as f64 / all as f64);
        }
    }
    let cancelled = cancel.is_cancelled();
    stats.timed_out = cancel.timed_out();
    stats.matched = total.counts.iter().sum();
    engine.metrics.in_flight.dec();
    engine.metrics.count_query(&stats, (engine.env.clock.uptime() - started).as_secs_f64(), cancelled);
    if cancelled {
        return Err(RequestError::Cancelled);
    }
    Ok((total.histogram(&request), stats))
}

/// What was counted of all units.
pub(crate) struct CountTotal {
    counts: Vec<u64>,
    ids: SequenceSets,
    id_bytes: usize,
    reservation: ResultReservation,
    grid: BucketGrid,
}

impl CountTotal {
    pub(crate) fn new(grid: BucketGrid, share: ResultReservation) -> Self {
        Self { counts: vec![0; grid.cells()], ids: SequenceSets::new(), id_bytes: 0, reservation: share, grid }
    }

    fn add(&mut self, counted: UnitCount, stats: &mut QueryStats) {
        stats.bytes_scanned += counted.bytes;
        stats.damaged.extend(counted.damaged);
        for (sum, count) in self.counts.iter_mut().zip(counted.counts) {
            *sum += count;
        }
        self.add_ids(counted.ids);
    }

    /// Adds ids, each of which counts once.
    pub(crate) fn add_ids(&mut self, ids: impl IntoIterator<Item = ((usize, Producer), RoaringBitmap)>) {
        for ((cell, producer), found) in ids {
            let seen = self.ids.entry((cell, producer)).or_default();
            let (count, bytes) = (seen.len(), seen.serialized_size());
            *seen |= found;
            // Runs that grow together take less than before.
            self.id_bytes = self.id_bytes + seen.serialized_size() - bytes;
            if let Some(sum) = self.counts.get_mut(cell) {
                *sum += seen.len() - count;
            }
        }
        self.reservation.resize(self.id_bytes as u64);
    }

    /// Memory for ids.
    pub(crate) fn id_bytes(&self) -> usize {
        self.id_bytes
    }

    /// All that was counted.
    pub(crate) fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Forgets the ids of the first stretches: none of them will be added again.
    pub(crate) fn discard_before(&mut self, buckets: usize) {
        let end = buckets.saturating_mul(self.grid.levels());
        self.ids.retain(|(cell, _), _| *cell >= end);
        self.update_reservation();
    }

    /// The ids so far, which are forgotten; in order.
    fn take_ids(&mut self) -> Vec<((usize, Producer), RoaringBitmap)> {
        let mut taken: Vec<_> = std::mem::take(&mut self.ids).into_iter().collect();
        taken.sort_unstable_by_key(|(key, _)| *key);
        self.update_reservation();
        taken
    }

    fn update_reservation(&mut self) {
        self.id_bytes = self.ids.values().map(RoaringBitmap::serialized_size).sum();
        self.reservation.resize(self.id_bytes as u64);
    }

    pub(crate) fn histogram(&self, request: &Request) -> Histogram {
        let end = request.to.time().0;
        let edge =
            |at: usize| Millis(self.grid.from.saturating_add(self.grid.width.saturating_mul(at as u64)).min(end));
        let bucket = |(at, cells): (usize, &[u64])| {
            let levels = cells.split_first().and_then(|(_, levels)| levels.try_into().ok());
            Bucket { from: edge(at), to: edge(at + 1), count: cells.iter().sum(), levels }
        };
        Histogram { buckets: self.counts.chunks(self.grid.levels()).enumerate().map(bucket).collect() }
    }
}

/// Ids that wait to be handed over are handed over when they take so many bytes.
const STEP_BYTES_MAX: usize = 4 << 20;

/// Gives the ids of matches instead of counting them, for a count over several nodes that may hold the same records: unit
/// by unit in the order of time, so that whoever puts them together need not keep what lies behind.
pub(crate) struct CountStream {
    engine: Arc<Engine>,
    request: Arc<Request>,
    plan: Arc<Plan>,
    cancel: Cancel,
    dispatch: Dispatch<UnitCount>,
    total: CountTotal,
    /// By their first stretch.
    pending: VecDeque<(usize, Unit)>,
    /// Their first stretches, by number.
    in_flight: BTreeMap<usize, usize>,
    units_started: usize,
    units_total: usize,
    stats: QueryStats,
    started: Duration,
    is_ended: bool,
}

/// What was counted since the step before.
#[derive(Debug)]
pub(crate) struct CountStep {
    /// Ids by cell and producer, in order.
    pub(crate) ids: Vec<((usize, Producer), RoaringBitmap)>,
    /// None will come for stretches before this.
    pub(crate) buckets_done: usize,
    /// Which part of the work is done.
    pub(crate) fraction_done: f64,
}

impl CountStream {
    pub(crate) fn start(
        engine: Arc<Engine>,
        request: Request,
        cancel: Cancel,
        division: Bucketing,
    ) -> Result<Self, RequestError> {
        let cancel = engine.with_time_limit(&cancel);
        let plan = Arc::new(Plan::compile(&request.expr)?);
        let mut stats = QueryStats::default();
        let units = units(&engine, &request, &plan, &mut stats);
        let grid = BucketGrid::new(&request, division);
        let mut waiting: Vec<(usize, Unit)> = units.into_iter().map(|unit| (grid.bucket(unit.low()), unit)).collect();
        waiting.sort_by_key(|(bucket, _)| *bucket);
        let total = CountTotal::new(grid, engine.result_budget.account().force_reserve(0));
        let dispatch = Dispatch::new(&engine, cancel.clone(), JOBS_PER_THREAD);
        engine.metrics.in_flight.inc();
        let started = engine.env.clock.uptime();
        let (request, all) = (Arc::new(request), waiting.len());
        let (in_flight, waiting) = (BTreeMap::new(), waiting.into());
        cancel.pause_time_limit();
        Ok(Self {
            engine,
            request,
            plan,
            cancel,
            dispatch,
            total,
            pending: waiting,
            in_flight,
            units_started: 0,
            units_total: all,
            stats,
            started,
            is_ended: false,
        })
    }

    pub(crate) fn stats(&self) -> &QueryStats {
        &self.stats
    }

    /// Counts on until there is something to tell; `None` at the end, or when it was cancelled.
    pub(crate) fn next_step(&mut self) -> Option<CountStep> {
        self.cancel.resume_time_limit();
        let step = self.count_until_step();
        self.cancel.pause_time_limit();
        step
    }

    fn count_until_step(&mut self) -> Option<CountStep> {
        let began = self.engine.env.clock.uptime();
        loop {
            self.start_scans();
            if self.cancel.is_cancelled() || (self.in_flight.is_empty() && self.is_ended) {
                return None;
            }
            if self.in_flight.is_empty() {
                self.is_ended = true;
                self.stats.timed_out = self.cancel.timed_out();
                return Some(self.take_step());
            }
            let Some((number, counted)) = self.dispatch.receive() else {
                if self.cancel.is_cancelled() {
                    return None;
                }
                // The time limit is reached, and these do not end.
                self.in_flight.clear();
                continue;
            };
            self.in_flight.remove(&number);
            match counted {
                Some(counted) => self.total.add(counted, &mut self.stats),
                None => {
                    self.stats.damaged.insert("a segment could not be searched: internal error".to_owned());
                }
            }
            let waited = self.engine.env.clock.uptime() - began;
            if waited >= PROGRESS_INTERVAL || self.total.id_bytes() >= STEP_BYTES_MAX {
                return Some(self.take_step());
            }
        }
    }

    fn start_scans(&mut self) {
        if !self.pending.is_empty() && self.cancel.should_stop() {
            self.pending.clear();
        }
        while self.in_flight.len() < self.dispatch.in_flight_max()
            && let Some((bucket, unit)) = self.pending.pop_front()
        {
            let (request, plan, cancel) = (Arc::clone(&self.request), Arc::clone(&self.plan), self.cancel.clone());
            let grid = self.total.grid;
            let bytes = unit.scan_bytes();
            self.dispatch
                .submit(self.units_started, bytes, move || count_unit(&unit, &request, &plan, &cancel, grid, true));
            self.in_flight.insert(self.units_started, bucket);
            self.units_started += 1;
        }
    }

    /// The first stretch that something may still be found for.
    fn first_open_bucket(&self) -> usize {
        let waiting = self.pending.front().map(|(bucket, _)| *bucket);
        waiting.into_iter().chain(self.in_flight.values().copied()).min().unwrap_or(self.total.grid.buckets)
    }

    fn take_step(&mut self) -> CountStep {
        let behind = self.pending.len() + self.in_flight.len();
        let done = (self.units_total - behind) as f64 / self.units_total.max(1) as f64;
        CountStep { ids: self.total.take_ids(), buckets_done: self.first_open_bucket(), fraction_done: done }
    }
}

impl Drop for CountStream {
    fn drop(&mut self) {
        self.stats.matched = self.total.sum();
        if !self.is_ended {
            self.cancel.cancel();
        }
        let cancelled = self.cancel.is_cancelled();
        let seconds = (self.engine.env.clock.uptime() - self.started).as_secs_f64();
        self.engine.metrics.in_flight.dec();
        self.engine.metrics.count_query(&self.stats, seconds, cancelled);
    }
}

/// For each unit whether another could hold the same record.
fn units_sharing_ids(units: &[Unit]) -> Vec<bool> {
    let empty = RecordSummary::default();
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|at| units.get(*at).map(Unit::low));
    let reach = |at: usize| units.get(at).and_then(Unit::reach).unwrap_or(&empty);
    let mut shared = vec![false; units.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        open.retain(|other| reach(*other).high >= reach(at).low);
        for other in &open {
            if reach(*other).may_intersect(reach(at)) {
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

fn count_unit(
    unit: &Unit,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    grid: BucketGrid,
    shared: bool,
) -> UnitCount {
    let mut counted =
        UnitCount { counts: vec![0; grid.cells()], ids: SequenceSets::new(), bytes: 0, damaged: Vec::new() };
    // A queue segment may hold a frame twice, after a client sent it again.
    let shared = shared || matches!(unit, Unit::Queue(_));
    let mut tally =
        UnitCounter { request, grid, may_share_ids: shared, counts: &mut counted.counts, ids: &mut counted.ids };
    let mut rows_to_look = 0;
    counted.bytes = scan(unit, request, plan, cancel, usize::MAX, &mut counted.damaged, &mut |met| {
        if grid.by_level {
            tally.count_by_level(met, cancel, &mut rows_to_look);
        } else {
            tally.count_chunk(met, &|| cancel.should_stop());
        }
        ControlFlow::Continue(())
    });
    counted
}

/// Puts the matches of a unit into cells.
struct UnitCounter<'a> {
    request: &'a Request,
    grid: BucketGrid,
    may_share_ids: bool,
    counts: &'a mut [u64],
    ids: &'a mut SequenceSets,
}

impl UnitCounter<'_> {
    /// Counts matches as they are.
    fn count_chunk(&mut self, met: MatchChunk<'_>, cancelled: &dyn Fn() -> bool) {
        let (of_lines, mut all);
        let (chunk, bound) = match met {
            MatchChunk::Text(chunk, bound) => (chunk, bound),
            MatchChunk::Lines(lines) => {
                (of_lines, all) =
                    (Chunk { labels: lines.labels(), rows: lines.matching_rows(), text: &[] }, BoundPlan::All);
                (&of_lines, &mut all)
            }
        };
        if let Some((low, high)) = chunk.rows.id_range()
            && !self.may_share_ids
            && self.request.contains(low)
            && self.request.contains(high)
            && self.grid.bucket(low) == self.grid.bucket(high)
        {
            if let Some(count) = self.counts.get_mut(self.grid.bucket(low)) {
                *count += u64::from(bound.count(chunk, cancelled));
            }
            return;
        }
        match bound {
            // There may be no text.
            BoundPlan::All => self.add_rows(&chunk.rows, None),
            bound => {
                let mut ids = RowIds::new(&chunk.rows);
                bound.find(chunk, cancelled, &mut |found| {
                    self.add(ids.id_of_row(found.row), None);
                    ControlFlow::Continue(())
                });
            }
        }
    }

    /// Counts matches by what their labels or texts say.
    fn count_by_level(&mut self, met: MatchChunk<'_>, cancel: &Cancel, rows_to_look: &mut u32) {
        match met {
            MatchChunk::Text(chunk, bound) => {
                let of_stream = Level::of_labels(chunk.labels);
                let mut ids = RowIds::new(&chunk.rows);
                bound.find(chunk, &|| cancel.should_stop(), &mut |found| {
                    let text = chunk.text.get(found.start..found.end).unwrap_or_default();
                    self.add(ids.id_of_row(found.row), of_stream.or_else(|| Level::of_text(text)));
                    ControlFlow::Continue(())
                });
            }
            MatchChunk::Lines(lines) => match Level::of_labels(lines.labels()) {
                // No line need be built.
                Some(level) => self.add_rows(&lines.matching_rows(), Some(level)),
                None => {
                    let mut ids = RowIds::new(lines.slice_rows());
                    lines.for_each_line(&mut |row, text| {
                        self.add(ids.id_of_row(row), Level::of_text(text));
                        if poll_cancel(rows_to_look, cancel) {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    });
                }
            },
        }
    }

    /// Adds all of these rows, as many at once as follow each other.
    fn add_rows(&mut self, rows: &Rows, level: Option<Level>) {
        for run in &rows.runs {
            if !self.request.contains(run.first_id) || !self.request.contains(run.last()) {
                (0..run.count).filter_map(|step| run.first_id.checked_add(step)).for_each(|id| self.add(id, level));
                continue;
            }
            // All have one time, and so one cell.
            let cell = self.grid.cell(run.first_id, level);
            if self.may_share_ids {
                let seen = self.ids.entry((cell, run.first_id.producer())).or_default();
                seen.insert_range(run.first_id.sequence()..=run.last().sequence());
            } else if let Some(count) = self.counts.get_mut(cell) {
                *count += u64::from(run.count);
            }
        }
    }

    fn add(&mut self, id: Id, level: Option<Level>) {
        if !self.request.contains(id) {
            return;
        }
        let cell = self.grid.cell(id, level);
        if self.may_share_ids {
            self.ids.entry((cell, id.producer())).or_default().insert(id.sequence());
        } else if let Some(count) = self.counts.get_mut(cell) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_grow_together_count_once() {
        let request = Request::new(bucksaw_record::Expr::All, Millis(0), Millis(10));
        let grid = BucketGrid::new(&request, Bucketing { buckets: 1, by_level: false });
        let mut total = CountTotal::new(
            grid,
            crate::result_budget::ResultBudget::new(1 << 20, Default::default()).account().force_reserve(0),
        );
        let runs = |spans: &[std::ops::Range<u32>]| {
            let mut ids: RoaringBitmap = spans.iter().cloned().flatten().collect();
            ids.optimize();
            [((0, Producer::new(1)), ids)]
        };
        total.add_ids(runs(&[0..100, 200..300, 400..500]));
        let apart = total.id_bytes();
        total.add_ids(runs(&[50..250, 250..450]));
        assert_eq!(total.sum(), 500);
        assert!(total.id_bytes() < apart, "{} and {apart}", total.id_bytes());
    }
}
