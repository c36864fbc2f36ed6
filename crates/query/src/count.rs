//! Counts. No lines are built, and ids are examined only where they matter.
//!
//! Rows of a unit are just counted if no other unit can contain the same records. Units that may share records, after
//! retries or with replicas, yield the ids of their matches. Bitmaps of sequence numbers per producer and bucket count
//! each id once. A bitmap cannot be cut or deferred, so its memory is reserved by force. It is small: some bits per
//! record, and few units overlap.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::{Expr, Id, Labels, Millis, Producer, RecordView};
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::{RecordSummary, Rows};
use roaring::RoaringBitmap;

use crate::dispatch::Dispatch;
use crate::engine::Engine;
use crate::grouping::{GroupNumber, Grouping};
use crate::match_buffer::RowIds;
use crate::partial_result::poll_cancel;
use crate::request::{Cancel, Request, RequestError};
use crate::result_budget::ResultReservation;
use crate::snapshot::{TESTED_UNITS_MAX, units, with_retention};
use crate::stats::QueryStats;
use crate::text_scan::{MatchChunk, ScanContent};
use crate::unit::Unit;

/// More buckets than any screen has columns.
const BUCKETS_MAX: usize = 10_000;

/// A unit is often counted in a fraction of a millisecond. On a busy machine the receiving thread runs again only after
/// several units.
const JOBS_PER_THREAD: usize = 8;

/// Bytes of text that one job counts, unless a single unit has more. A job wakes the receiving thread at its end; with
/// thousands of small segments, that would cost more than their counts.
const JOB_TEXT_BYTES: u64 = 1 << 20;

/// Interval of progress reports.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of ids at which a step of a count for another node ends.
const STEP_BYTES_MAX: usize = 4 << 20;

/// Cells of a count. Each unit that is counted has a counter per cell, so with many groups there are fewer buckets.
const CELLS_MAX: usize = 70_000;

/// How matches are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucketing {
    /// The maximum number of buckets, all of equal length.
    pub buckets: usize,
    /// What the records of a bucket are divided by.
    pub grouping: Grouping,
}

/// The matches of a time range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Start, inclusive.
    pub from: Millis,
    /// End, exclusive.
    pub to: Millis,
    /// Number of records.
    pub count: u64,
    /// Number of records per group of the [`Grouping`]; the rest are in no group.
    pub groups: Vec<u64>,
}

/// Matches over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Adjacent buckets, oldest first.
    pub buckets: Vec<Bucket>,
}

/// Maps ids to cells: each bucket of a request's time has one cell for records of no group, then one per group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketGrid {
    from: u64,
    width: u64,
    pub(crate) buckets: usize,
    /// Cells of a bucket.
    pub(crate) bucket_cells: usize,
}

impl BucketGrid {
    pub(crate) fn new(request: &Request, bucketing: &Bucketing) -> Self {
        let from = request.from.time().0;
        let length = request.to.time().0.saturating_sub(from).max(1);
        let bucket_cells = 1 + bucketing.grouping.len();
        let buckets_max = BUCKETS_MAX.min(CELLS_MAX / bucket_cells).max(1);
        let width = length.div_ceil(bucketing.buckets.clamp(1, buckets_max) as u64);
        Self { from, width, buckets: length.div_ceil(width) as usize, bucket_cells }
    }

    fn bucket(&self, id: Id) -> usize {
        let bucket = id.time().0.saturating_sub(self.from) / self.width;
        usize::try_from(bucket).unwrap_or(usize::MAX).min(self.buckets - 1)
    }

    pub(crate) fn cells(&self) -> usize {
        self.buckets * self.bucket_cells
    }

    fn cell(&self, id: Id, group: GroupNumber) -> usize {
        self.bucket(id) * self.bucket_cells + group
    }
}

/// Sequence numbers by cell and producer. Replicas have equal ids, so they are in the same cell.
type SequenceSets = HashMap<(usize, Producer), RoaringBitmap>;

impl Engine {
    /// As [`Answers::histogram`](crate::Answers::histogram), over the records of this node.
    pub(crate) fn histogram(
        self: &Arc<Self>,
        request: Request,
        cancel: Cancel,
        bucketing: Bucketing,
        on_progress: &mut dyn FnMut(&Histogram, f64),
    ) -> Result<(Histogram, QueryStats), RequestError> {
        let mut count = CountStream::start(Arc::clone(self), request, cancel, bucketing, false)?;
        while let Some(fraction_done) = count.advance() {
            if !count.is_ended {
                on_progress(&count.total.histogram(&count.request), fraction_done);
            }
        }
        if count.cancel.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        let stats = QueryStats { matched: count.total.sum(), ..count.stats.clone() };
        Ok((count.total.histogram(&count.request), stats))
    }
}

/// The sum over all units.
pub(crate) struct CountTotal {
    counts: Vec<u64>,
    ids: SequenceSets,
    /// Memory of the ids.
    pub(crate) id_bytes: usize,
    reservation: ResultReservation,
    grid: BucketGrid,
}

impl CountTotal {
    pub(crate) fn new(grid: BucketGrid, engine: &Engine) -> Self {
        let reservation = engine.result_budget.account().force_reserve(0);
        Self { counts: vec![0; grid.cells()], ids: SequenceSets::new(), id_bytes: 0, reservation, grid }
    }

    fn add(&mut self, job: JobCount, stats: &mut QueryStats) {
        stats.bytes_scanned += job.bytes_scanned;
        stats.damaged.extend(job.damaged);
        for (sum, count) in self.counts.iter_mut().zip(job.counts) {
            *sum += count;
        }
        self.add_ids(job.ids);
    }

    /// Adds ids. Each id counts once.
    pub(crate) fn add_ids(&mut self, ids: impl IntoIterator<Item = ((usize, Producer), RoaringBitmap)>) {
        for ((cell, producer), found) in ids {
            let seen = self.ids.entry((cell, producer)).or_default();
            let (count, bytes) = (seen.len(), seen.serialized_size());
            *seen |= found;
            // Joined runs take fewer bytes than before.
            self.id_bytes = self.id_bytes + seen.serialized_size() - bytes;
            if let Some(sum) = self.counts.get_mut(cell) {
                *sum += seen.len() - count;
            }
        }
        self.reservation.resize(self.id_bytes as u64);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Drops the ids of the first buckets, to which none will be added.
    pub(crate) fn discard_before(&mut self, buckets: usize) {
        let end = buckets.saturating_mul(self.grid.bucket_cells);
        self.ids.retain(|(cell, _), _| *cell >= end);
        self.update_reservation();
    }

    /// Removes and returns the ids, sorted by cell and producer.
    fn take_ids(&mut self) -> Vec<((usize, Producer), RoaringBitmap)> {
        let mut ids: Vec<_> = std::mem::take(&mut self.ids).into_iter().collect();
        ids.sort_unstable_by_key(|(key, _)| *key);
        self.update_reservation();
        ids
    }

    fn update_reservation(&mut self) {
        self.id_bytes = self.ids.values().map(RoaringBitmap::serialized_size).sum();
        self.reservation.resize(self.id_bytes as u64);
    }

    pub(crate) fn histogram(&self, request: &Request) -> Histogram {
        let (from, width, end) = (self.grid.from, self.grid.width, request.to.time().0);
        let start = |number: usize| Millis(from.saturating_add(width.saturating_mul(number as u64)).min(end));
        let bucket = |(number, cells): (usize, &[u64])| {
            let groups = cells.get(1..).unwrap_or_default().to_vec();
            Bucket { from: start(number), to: start(number + 1), count: cells.iter().sum(), groups }
        };
        Histogram { buckets: self.counts.chunks(self.grid.bucket_cells).enumerate().map(bucket).collect() }
    }
}

/// A count on this node, which can yield the ids of matches for a node that merges them.
///
/// Units start in order of time, so the merging node need not keep the ids of finished buckets.
pub(crate) struct CountStream {
    engine: Arc<Engine>,
    request: Arc<Request>,
    plan: Arc<Plan>,
    grouping: Arc<Grouping>,
    cancel: Cancel,
    dispatch: Dispatch<JobCount>,
    total: CountTotal,
    /// In the order of their first buckets.
    pending: VecDeque<PendingUnit>,
    in_flight: BTreeMap<usize, JobInFlight>,
    jobs_started: usize,
    pub(crate) units_total: usize,
    /// Bytes of ids that are returned early.
    step_bytes_max: usize,
    pub(crate) stats: QueryStats,
    started: Duration,
    is_ended: bool,
}

/// A unit that is not counted yet.
struct PendingUnit {
    first_bucket: usize,
    unit: Unit,
    /// Whether another unit may contain the same records.
    may_share_ids: bool,
}

/// A job that has not returned its count.
struct JobInFlight {
    first_bucket: usize,
    units: usize,
}

/// The result of a count since the previous step.
#[derive(Debug)]
pub(crate) struct CountStep {
    /// Ids by cell and producer, in order.
    pub(crate) ids: Vec<((usize, Producer), RoaringBitmap)>,
    /// No further ids follow for buckets before this.
    pub(crate) buckets_done: usize,
    pub(crate) fraction_done: f64,
}

impl CountStream {
    /// Starts a count. With `yields_ids` all matches are returned as ids by [`Self::next_step`].
    pub(crate) fn start(
        engine: Arc<Engine>,
        request: Request,
        cancel: Cancel,
        bucketing: Bucketing,
        yields_ids: bool,
    ) -> Result<Self, RequestError> {
        let cancel = engine.with_time_limit(&cancel);
        let plan = Arc::new(Plan::compile(&request.expr)?);
        let mut stats = QueryStats::default();
        let request = with_retention(&engine, request);
        let mut units = units(&engine, &request, &plan, &mut stats);
        if units.len() <= TESTED_UNITS_MAX {
            units.retain(|unit| !unit.is_known_to_match_nothing(&request, &plan));
        }
        let grid = BucketGrid::new(&request, &bucketing);
        let may_share_ids = if yields_ids { vec![true; units.len()] } else { units_sharing_ids(&units) };
        let pending = units.into_iter().zip(may_share_ids);
        let pending = pending.map(|(unit, may_share_ids)| PendingUnit {
            first_bucket: grid.bucket(unit.low()),
            unit,
            may_share_ids,
        });
        let mut pending: Vec<_> = pending.collect();
        pending.sort_by_key(|unit| unit.first_bucket);
        engine.metrics.in_flight.inc();
        cancel.pause_time_limit();
        Ok(Self {
            dispatch: Dispatch::new(&engine, cancel.clone(), JOBS_PER_THREAD),
            total: CountTotal::new(grid, &engine),
            started: engine.env.clock.uptime(),
            engine,
            request: Arc::new(request),
            plan,
            grouping: Arc::new(bucketing.grouping),
            cancel,
            units_total: pending.len(),
            pending: pending.into(),
            in_flight: BTreeMap::new(),
            jobs_started: 0,
            step_bytes_max: if yields_ids { STEP_BYTES_MAX } else { usize::MAX },
            stats,
            is_ended: false,
        })
    }

    /// Counts until there is progress to report; `None` at the end or after a cancellation.
    pub(crate) fn next_step(&mut self) -> Option<CountStep> {
        let fraction_done = self.advance()?;
        let in_flight = self.in_flight.values().map(|job| job.first_bucket);
        let open = self.pending.front().map(|unit| unit.first_bucket).into_iter().chain(in_flight);
        let buckets_done = open.min().unwrap_or(self.total.grid.buckets);
        Some(CountStep { ids: self.total.take_ids(), buckets_done, fraction_done })
    }

    /// Counts until there is progress to report, and returns the fraction done; `None` at the end or after a cancellation.
    fn advance(&mut self) -> Option<f64> {
        self.cancel.resume_time_limit();
        let fraction_done = self.count_until_progress();
        self.cancel.pause_time_limit();
        fraction_done
    }

    fn count_until_progress(&mut self) -> Option<f64> {
        let started = self.engine.env.clock.uptime();
        loop {
            self.start_scans();
            if self.cancel.is_cancelled() || self.is_ended {
                return None;
            }
            if self.in_flight.is_empty() {
                self.is_ended = true;
                self.stats.timed_out = self.cancel.timed_out();
                return Some(1.0);
            }
            match self.dispatch.receive() {
                Some((number, count)) => {
                    self.in_flight.remove(&number);
                    match count {
                        Some(count) => self.total.add(count, &mut self.stats),
                        None => self.stats.add_failed_scan(),
                    }
                }
                None if self.cancel.is_cancelled() => return None,
                // The time limit is reached, and these scans do not end.
                None => self.in_flight.clear(),
            }
            let elapsed = self.engine.env.clock.uptime() - started;
            if elapsed >= PROGRESS_INTERVAL || self.total.id_bytes >= self.step_bytes_max {
                let open = self.pending.len() + self.in_flight.values().map(|job| job.units).sum::<usize>();
                return Some((self.units_total - open) as f64 / self.units_total.max(1) as f64);
            }
        }
    }

    fn start_scans(&mut self) {
        if !self.pending.is_empty() && self.cancel.should_stop() {
            self.pending.clear();
        }
        while self.in_flight.len() < self.dispatch.in_flight_max
            && let Some(first_bucket) = self.pending.front().map(|unit| unit.first_bucket)
        {
            let units = self.take_job_units();
            let in_flight = JobInFlight { first_bucket, units: units.len() };
            // They are counted one after the other.
            let bytes = units.iter().map(|pending| pending.unit.scan_bytes()).max().unwrap_or_default();
            let (request, plan, cancel) = (Arc::clone(&self.request), Arc::clone(&self.plan), self.cancel.clone());
            let (grid, grouping) = (self.total.grid, Arc::clone(&self.grouping));
            let job = move || JobCount::count(&units, request, &plan, &cancel, (grid, grouping));
            self.dispatch.submit(self.jobs_started, bytes, job);
            self.in_flight.insert(self.jobs_started, in_flight);
            self.jobs_started += 1;
        }
    }

    /// Removes the first pending unit, and those after it that fit into the same job.
    fn take_job_units(&mut self) -> Vec<PendingUnit> {
        // The units of a short range are divided among all threads.
        let units_max = self.units_total.div_ceil(self.engine.pool.threads().max(1));
        let text_bytes = self.pending.iter().map(|pending| pending.unit.text_bytes());
        let count = units_per_job(text_bytes, units_max);
        self.pending.drain(..count).collect()
    }
}

/// How many of these units one job counts: at least one, if there is one.
fn units_per_job(text_bytes: impl Iterator<Item = u64>, units_max: usize) -> usize {
    let (mut count, mut sum) = (0, 0);
    for bytes in text_bytes.take(units_max.max(1)) {
        sum += bytes;
        if count > 0 && sum > JOB_TEXT_BYTES {
            break;
        }
        count += 1;
    }
    count
}

impl Drop for CountStream {
    fn drop(&mut self) {
        self.stats.matched = self.total.sum();
        if !self.is_ended {
            self.cancel.cancel();
        }
        let seconds = (self.engine.env.clock.uptime() - self.started).as_secs_f64();
        self.engine.metrics.in_flight.dec();
        self.engine.metrics.count_query(&self.stats, seconds, self.cancel.is_cancelled());
    }
}

/// For each unit, whether another one may contain the same record.
pub(crate) fn units_sharing_ids(units: &[Unit]) -> Vec<bool> {
    let empty = RecordSummary::default();
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|at| units.get(*at).map(Unit::low));
    let summary = |at: usize| units.get(at).and_then(Unit::summary).unwrap_or(&empty);
    let mut shares = vec![false; units.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        open.retain(|other| summary(*other).high >= summary(at).low);
        for other in open.iter().copied().filter(|other| summary(*other).may_intersect(summary(at))) {
            for place in [at, other] {
                if let Some(shares) = shares.get_mut(place) {
                    *shares = true;
                }
            }
        }
        open.push(at);
    }
    shares
}

/// The count of the units of one job.
struct JobCount {
    request: Arc<Request>,
    grid: BucketGrid,
    grouping: Arc<Grouping>,
    /// Whether another unit may contain records of the one that is being counted.
    may_share_ids: bool,
    counts: Vec<u64>,
    /// Ids of matches that other units may contain.
    ids: SequenceSets,
    bytes_scanned: u64,
    damaged: Vec<String>,
}

impl JobCount {
    fn count(
        units: &[PendingUnit],
        request: Arc<Request>,
        plan: &Plan,
        cancel: &Cancel,
        (grid, grouping): (BucketGrid, Arc<Grouping>),
    ) -> Self {
        let mut count = Self {
            request,
            grid,
            grouping,
            may_share_ids: false,
            counts: vec![0; grid.cells()],
            ids: SequenceSets::new(),
            bytes_scanned: 0,
            damaged: Vec::new(),
        };
        // After a cancellation or the time limit, the query does without the rest, and its statistics say so.
        for pending in units.iter().take_while(|_| !cancel.should_stop()) {
            count.add_unit(pending, plan, cancel);
        }
        count
    }

    fn add_unit(&mut self, pending: &PendingUnit, plan: &Plan, cancel: &Cancel) {
        // A queue segment may contain a frame twice, after a client sent it again.
        self.may_share_ids = pending.may_share_ids || matches!(pending.unit, Unit::Queue(_));
        let (request, mut damaged, mut rows_until_poll) = (Arc::clone(&self.request), Vec::new(), 0);
        // No condition on streams holds for one without labels.
        let has_all_streams = request.stream.is_none() && request.matches_stream(&Labels::default());
        let content = match &*self.grouping {
            _ if request.expr != Expr::All => ScanContent::Records,
            Grouping::None if has_all_streams => ScanContent::Ids,
            Grouping::None | Grouping::Streams(_) => ScanContent::IdsAndStreams,
            _ => ScanContent::Records,
        };
        let scan = (usize::MAX, content);
        self.bytes_scanned += pending.unit.scan(&request, plan, cancel, scan, &mut damaged, &mut |chunk| {
            self.add_chunk(chunk, cancel, &mut rows_until_poll);
            ControlFlow::Continue(())
        });
        self.damaged.append(&mut damaged);
    }

    fn add_chunk(&mut self, chunk: MatchChunk<'_>, cancel: &Cancel, rows_until_poll: &mut u32) {
        let labels = match &chunk {
            MatchChunk::Text(chunk, _) => chunk.labels,
            MatchChunk::Columns(records) => records.labels(),
        };
        match (self.grouping.of_stream(labels), chunk) {
            (Some(group), MatchChunk::Columns(records)) => match self.single_count(records.slice_rows(), group) {
                Some(count) => *count += records.count() as u64,
                None => self.add_rows(&records.matching_rows(), group),
            },
            (None, MatchChunk::Columns(records)) => {
                let mut ids = RowIds::new(records.slice_rows());
                records.for_each(&mut |row, record| {
                    self.add(ids.id_of_row(row), self.grouping.of_record(record));
                    if poll_cancel(rows_until_poll, cancel) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
            }
            (Some(group), MatchChunk::Text(chunk, BoundPlan::All)) => self.add_rows(&chunk.rows, group),
            (settled, MatchChunk::Text(chunk, bound)) => {
                let is_cancelled = || cancel.should_stop();
                if let Some(count) = settled.and_then(|group| self.single_count(&chunk.rows, group)) {
                    *count += u64::from(bound.count(chunk, &is_cancelled));
                    return;
                }
                let mut ids = RowIds::new(&chunk.rows);
                bound.find(chunk, &is_cancelled, &mut |found| {
                    let group = settled.unwrap_or_else(|| {
                        let text = chunk.text.get(found.start..found.end).unwrap_or_default();
                        self.grouping.of_record(RecordView::new(text, chunk.rows.attributes(found.row)))
                    });
                    self.add(ids.id_of_row(found.row), group);
                    ControlFlow::Continue(())
                });
            }
        }
    }

    /// The counter of all of these rows, if they have only one and their ids do not matter.
    fn single_count(&mut self, rows: &Rows, group: GroupNumber) -> Option<&mut u64> {
        let (low, high) = rows.id_range()?;
        let is_requested = self.request.contains(low) && self.request.contains(high);
        let is_single = is_requested && !self.may_share_ids && self.grid.bucket(low) == self.grid.bucket(high);
        self.counts.get_mut(self.grid.cell(low, group)).filter(|_| is_single)
    }

    fn add_rows(&mut self, rows: &Rows, group: GroupNumber) {
        if let Some(count) = self.single_count(rows, group) {
            *count += u64::from(rows.count);
            return;
        }
        for run in &rows.runs {
            if !self.request.contains(run.first_id) || !self.request.contains(run.last()) {
                (0..run.count).filter_map(|step| run.first_id.checked_add(step)).for_each(|id| self.add(id, group));
                continue;
            }
            // The ids of a run have one time, and so one cell.
            let cell = self.grid.cell(run.first_id, group);
            if self.may_share_ids {
                let seen = self.ids.entry((cell, run.first_id.producer())).or_default();
                seen.insert_range(run.first_id.sequence()..=run.last().sequence());
            } else if let Some(count) = self.counts.get_mut(cell) {
                *count += u64::from(run.count);
            }
        }
    }

    fn add(&mut self, id: Id, group: GroupNumber) {
        if !self.request.contains(id) {
            return;
        }
        let cell = self.grid.cell(id, group);
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
    fn overlapping_ids_count_once() {
        let request = Request::new(bucksaw_record::Expr::All, Millis(0), Millis(10));
        let grid = BucketGrid::new(&request, &Bucketing { buckets: 1, grouping: Grouping::None });
        let budget = crate::result_budget::ResultBudget::new(1 << 20, Default::default());
        let (counts, ids) = (vec![0; grid.cells()], SequenceSets::new());
        let mut total = CountTotal { counts, ids, id_bytes: 0, reservation: budget.account().force_reserve(0), grid };
        let runs = |ranges: &[std::ops::Range<u32>]| {
            let mut ids: RoaringBitmap = ranges.iter().cloned().flatten().collect();
            ids.optimize();
            [((0, Producer::new(1)), ids)]
        };
        total.add_ids(runs(&[0..100, 200..300, 400..500]));
        let separate_bytes = total.id_bytes;
        total.add_ids(runs(&[50..250, 250..450]));
        assert_eq!(total.sum(), 500);
        assert!(total.id_bytes < separate_bytes, "{} and {separate_bytes}", total.id_bytes);
    }

    #[test]
    fn a_job_has_units_up_to_its_text_and_its_share() {
        let check = |text_bytes: &[u64], units_max, want| {
            assert_eq!(units_per_job(text_bytes.iter().copied(), units_max), want, "{text_bytes:?} {units_max}");
        };
        check(&[1; 10], 5, 5);
        check(&[1; 3], 5, 3);
        check(&[JOB_TEXT_BYTES / 2; 10], 5, 2);
        check(&[JOB_TEXT_BYTES + 1, 1], 5, 1);
        check(&[1, 1], 0, 1);
        check(&[], 5, 0);
    }

    #[test]
    fn ids_of_open_buckets_are_kept() {
        let request = Request::new(bucksaw_record::Expr::All, Millis(0), Millis(10));
        let grid = BucketGrid::new(&request, &Bucketing { buckets: 2, grouping: Grouping::Level });
        let budget = crate::result_budget::ResultBudget::new(1 << 20, Default::default());
        let (counts, ids) = (vec![0; grid.cells()], SequenceSets::new());
        let mut total = CountTotal { counts, ids, id_bytes: 0, reservation: budget.account().force_reserve(0), grid };
        let open = grid.bucket_cells;
        let ids = |cell| [((cell, Producer::new(1)), RoaringBitmap::from_iter([1, 2, 3]))];
        total.add_ids([ids(open - 1), ids(open)].concat());
        total.discard_before(1);
        total.add_ids(ids(open));
        assert_eq!((total.sum(), total.take_ids().len()), (6, 1));
    }
}
