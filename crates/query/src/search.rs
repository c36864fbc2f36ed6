//! A search: scans units in the order of the answer, a few at a time, and merges their matches by id.
//!
//! Records up to the *frontier* may be returned: the first id that a unit which is not yet scanned may contain. Units
//! start in the order of that id, so the frontier advances steadily, and units that do not overlap do not wait for each
//! other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::Id;
use bucksaw_scan::Plan;

use crate::dispatch::Dispatch;
use crate::engine::Engine;
use crate::match_buffer::{RecordRef, RecordRun, SealedMatches};
use crate::partial_result::PartialResult;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::result_budget::{QueryAccount, ResultReservation};
use crate::snapshot::{TESTED_UNITS_MAX, units, with_retention};
use crate::stats::QueryStats;
use crate::unit::Unit;

/// Records at which a batch ends, and that a run has at most.
const BATCH_RECORDS: usize = 2_048;

/// Few, because matches stay in memory until the frontier has passed them.
const JOBS_PER_THREAD: usize = 2;

/// Bytes at which a batch ends, and that a run has at most, except for a longer record.
const BATCH_BYTES: usize = 256 << 10;

/// A search of this node that runs as far as its reader reads. Dropping it stops the work.
pub(crate) struct Search {
    engine: Arc<Engine>,
    order: Order,
    limit: Option<u64>,
    plan: Arc<Plan>,
    cancel: Cancel,
    account: QueryAccount,
    /// Tasks to start, in the order of the answer.
    pending: VecDeque<ScanTask>,
    /// Tasks being scanned, by number.
    in_flight: BTreeMap<usize, ScanTask>,
    dispatch: Dispatch<PartialResult>,
    /// Tasks whose results are ignored.
    abandoned: BTreeSet<usize>,
    /// Matches that were not yet returned, by the key of their next record.
    heap: BinaryHeap<Reverse<(u128, usize)>>,
    matches: BTreeMap<usize, (ScanTask, SealedMatches)>,
    /// Memory that all matches took so far.
    match_bytes: u64,
    /// Scans started so far, which is the number of the next.
    pub(crate) scans_started: usize,
    /// How many more times a skip filter is tested before a scan.
    tests_left: usize,
    last: Option<Id>,
    /// The statistics so far; complete after an empty batch.
    pub(crate) stats: QueryStats,
    progress: SearchProgress,
    started: Duration,
    is_finished: bool,
}

/// The progress of a search, readable from any thread. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchProgress(Arc<Mutex<(u128, QueryStats)>>);

impl SearchProgress {
    /// The lowest key that a record may have which is still to come, and the statistics so far.
    pub(crate) fn get(&self) -> (u128, QueryStats) {
        lock(&self.0).clone()
    }

    fn set(&self, key: u128, stats: &QueryStats) {
        *lock(&self.0) = (key, stats.clone());
    }
}

/// A unit and the request to scan it for.
#[derive(Clone)]
struct ScanTask {
    /// The lowest key of its records.
    key: u128,
    unit: Unit,
    request: Arc<Request>,
}

/// How records are passed to the reader.
enum RecordVisitor<'a> {
    /// One at a time.
    Records(&'a mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>),
    /// Adjacent records together.
    Runs(&'a mut dyn FnMut(RecordRun<'_>)),
}

/// A batch that is being passed to the reader.
struct OutputBatch<'a> {
    visitor: RecordVisitor<'a>,
    records: usize,
    bytes: usize,
    is_stopped: bool,
}

impl OutputBatch<'_> {
    /// Passes on the next records while they are `wanted`, at most `records_max`. Returns the last id and the number of
    /// records.
    fn push_from(
        &mut self,
        matches: &mut SealedMatches,
        records_max: u64,
        wanted: impl Fn(Id) -> bool,
    ) -> Option<(Id, u64)> {
        let (last, records, bytes) = match &mut self.visitor {
            RecordVisitor::Records(visit) => matches.visit_next(|record| {
                self.is_stopped = visit(record).is_break();
                (record.id, 1, record.view.text().len())
            })?,
            RecordVisitor::Runs(visit) => {
                // Regardless of the size of the batch: runs are shared, not copied, so larger ones cost less.
                let records_max = usize::try_from(records_max).unwrap_or(usize::MAX).min(BATCH_RECORDS);
                matches.visit_run(records_max, BATCH_BYTES, wanted, |run| {
                    visit(run);
                    (run.last, run.records, run.lines.len())
                })?
            }
        };
        self.records += records;
        self.bytes += bytes;
        Some((last, records as u64))
    }

    fn is_full(&self) -> bool {
        self.is_stopped || self.records >= BATCH_RECORDS || self.bytes >= BATCH_BYTES
    }
}

impl Engine {
    /// Starts a search over the records that this node holds now.
    pub(crate) fn search(self: &Arc<Self>, request: Request, cancel: Cancel) -> Result<Search, RequestError> {
        let cancel = self.with_time_limit(&cancel);
        let plan = Plan::compile(&request.expr)?;
        let mut stats = QueryStats::default();
        let request = with_retention(self, request);
        let units = units(self, &request, &plan, &mut stats);
        let (order, limit, request) = (request.order, request.limit, Arc::new(request));
        let task = |unit: Unit| {
            let first = match order {
                Order::Ascending => unit.low(),
                Order::Descending => unit.high(),
            };
            ScanTask { key: order.key(first), unit, request: Arc::clone(&request) }
        };
        let mut pending: Vec<ScanTask> = units.into_iter().map(task).collect();
        pending.sort_by_key(|task| task.key);
        self.metrics.in_flight.inc();
        cancel.pause_time_limit();
        Ok(Search {
            started: self.env.clock.uptime(),
            account: self.result_budget.account(),
            engine: Arc::clone(self),
            order,
            limit,
            plan: Arc::new(plan),
            dispatch: Dispatch::new(self, cancel.clone(), JOBS_PER_THREAD),
            cancel,
            pending: pending.into(),
            in_flight: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            heap: BinaryHeap::new(),
            matches: BTreeMap::new(),
            match_bytes: 0,
            scans_started: 0,
            tests_left: TESTED_UNITS_MAX,
            last: None,
            stats,
            progress: SearchProgress::default(),
            is_finished: false,
        })
    }
}

impl Search {
    /// Passes the next records to `visit`, in order, until a batch is full or `visit` breaks. Returns their number,
    /// which is 0 at the end or after a cancellation. Waits only for the first of them.
    pub(crate) fn visit_batch(&mut self, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) -> usize {
        self.next_batch(RecordVisitor::Records(visit))
    }

    /// As [`Self::visit_batch`], with adjacent records together.
    pub(crate) fn visit_runs(&mut self, visit: &mut dyn FnMut(RecordRun<'_>)) -> usize {
        self.next_batch(RecordVisitor::Runs(visit))
    }

    fn next_batch(&mut self, visitor: RecordVisitor<'_>) -> usize {
        self.cancel.resume_time_limit();
        let mut batch = OutputBatch { visitor, records: 0, bytes: 0, is_stopped: false };
        while !self.is_full() && !self.cancel.is_cancelled() {
            if !self.is_done() && self.cancel.should_stop() {
                self.stop_at_time_limit();
            }
            self.start_scans();
            self.emit(&mut batch);
            if batch.is_full() {
                break;
            }
            if self.in_flight.is_empty() {
                if self.pending.is_empty() && self.heap.is_empty() {
                    break;
                }
                continue;
            }
            if batch.records > 0 {
                break;
            }
            self.wait_for_scan();
            let next = self.heap.peek().map_or(u128::MAX, |Reverse((key, _))| *key);
            self.progress.set(next.min(self.frontier()), &self.stats);
        }
        if batch.records == 0 {
            self.finish();
        }
        self.cancel.pause_time_limit();
        batch.records
    }

    /// Releases all memory, for a reader that stalls. What was found and not returned is searched for again. Waits for
    /// the running scans.
    pub(crate) fn release_memory(&mut self) {
        while !self.in_flight.is_empty() && !self.cancel.is_cancelled() {
            self.wait_for_scan();
        }
        self.heap.clear();
        for (task, matches) in std::mem::take(&mut self.matches).into_values() {
            if let Some(id) = matches.peek() {
                self.requeue(task, id);
            }
        }
    }

    pub(crate) fn progress(&self) -> SearchProgress {
        self.progress.clone()
    }

    /// Whether it was cancelled before all records were returned.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.stats.matched >= limit)
    }

    /// Starts as many scans as there are threads and memory for, also while the reader takes records.
    pub(crate) fn start_scans(&mut self) {
        while let Some((number, result)) = self.dispatch.try_receive() {
            self.accept_result(number, result);
        }
        while self.may_start_scan() {
            self.skip_units_without_matches();
            let Some(next) = self.pending.front() else { return };
            // Returns ready records before it searches further.
            let ready = self.heap.peek().is_some_and(|Reverse((ready, _))| *ready <= next.key);
            if ready && self.in_flight.is_empty() {
                return;
            }
            let Some(reservation) = self.reserve_for(&next.unit) else { return };
            if let Some(task) = self.pending.pop_front() {
                self.start_scan(task, reservation);
            }
        }
    }

    /// Drops the next units that are known to match nothing.
    fn skip_units_without_matches(&mut self) {
        while let Some(next) = self.pending.front()
            && self.tests_left > 0
        {
            self.tests_left -= 1;
            if !next.unit.is_known_to_match_nothing(&next.request, &self.plan) {
                return;
            }
            self.pending.pop_front();
        }
    }

    /// The first units often hold all records that are wanted, and scans that are not needed would cost as much as the others. So a
    /// search with a limit starts as many scans as it needs if each record matches, at least one, and one more for each that has
    /// ended.
    pub(crate) fn may_start_scan(&self) -> bool {
        let in_flight = self.in_flight.len();
        if in_flight >= self.dispatch.in_flight_max {
            return false;
        }
        let Some(limit) = self.limit else { return true };
        in_flight <= self.scans_started - in_flight || self.records_to_come() < limit.saturating_sub(self.stats.matched)
    }

    /// The records of the answer that are found or being searched for, at most.
    fn records_to_come(&self) -> u64 {
        let found = self.matches.values().map(|(_, matches)| matches.len() as u64);
        let in_flight = self.in_flight.values().map(|task| task.unit.summary().map_or(0, |summary| summary.records));
        found.chain(in_flight).sum()
    }

    /// Memory for the expected matches of a unit; `None` if there is too little and other scans are running.
    fn reserve_for(&self, unit: &Unit) -> Option<ResultReservation> {
        let scaled = u128::from(self.match_bytes) * u128::from(unit.text_bytes());
        let expected = scaled / u128::from(self.stats.bytes_scanned.max(1));
        let bytes_min = self.engine.result_budget.min_reservation_bytes();
        let reservation = self.account.try_reserve(u64::try_from(expected).unwrap_or(u64::MAX).max(bytes_min));
        reservation.or_else(|| self.in_flight.is_empty().then(|| self.account.force_reserve(bytes_min)))
    }

    fn start_scan(&mut self, task: ScanTask, reservation: ResultReservation) {
        let number = self.scans_started;
        self.scans_started += 1;
        // The last record that was returned may be found again.
        let left = self.limit.map(|limit| limit - self.stats.matched.min(limit) + u64::from(self.last.is_some()));
        let limit = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let (plan, cancel, pools) = (Arc::clone(&self.plan), self.cancel.clone(), self.engine.match_pools.clone());
        self.in_flight.insert(number, task.clone());
        self.dispatch.submit(number, task.unit.scan_bytes(), move || {
            PartialResult::scan(&task.unit, &task.request, &plan, &cancel, limit, reservation, pools)
        });
    }

    /// The key up to which records may be returned.
    pub(crate) fn frontier(&self) -> u128 {
        let pending = self.pending.front().into_iter();
        pending.chain(self.in_flight.values()).map(|task| task.key).min().unwrap_or(u128::MAX)
    }

    fn emit(&mut self, batch: &mut OutputBatch<'_>) {
        let frontier = self.frontier();
        while let Some(Reverse((first, number))) = self.heap.peek().copied() {
            if first > frontier || self.is_full() || batch.is_full() {
                return;
            }
            self.heap.pop();
            let last_key = self.heap.peek().map_or(u128::MAX, |Reverse((key, _))| *key).min(frontier);
            let Some((_, matches)) = self.matches.get_mut(&number) else { continue };
            let order = self.order;
            let mut next = None;
            while let Some(id) = matches.peek() {
                let key = order.key(id);
                let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.stats.matched));
                if key > last_key || left == 0 || batch.is_full() {
                    next = Some(key);
                    break;
                }
                // Equal ids are replicas of one record.
                if self.last == Some(id) {
                    matches.visit_next(|_| ());
                    continue;
                }
                let is_wanted = |id| order.key(id) <= last_key;
                let Some((last, records)) = batch.push_from(matches, left, is_wanted) else { break };
                self.last = Some(last);
                self.stats.matched += records;
            }
            match next {
                Some(key) => self.heap.push(Reverse((key, number))),
                None => drop(self.matches.remove(&number)),
            }
        }
    }

    pub(crate) fn wait_for_scan(&mut self) {
        match self.dispatch.receive() {
            Some((number, result)) => self.accept_result(number, result),
            None if self.cancel.is_cancelled() => {}
            None => {
                // The time limit is reached, and these scans do not end.
                self.abandoned.extend(std::mem::take(&mut self.in_flight).into_keys());
                self.stop_at_time_limit();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_empty()
    }

    /// Drops the tasks that were not started. The matches of the others are still returned.
    fn stop_at_time_limit(&mut self) {
        self.pending.clear();
        self.stats.timed_out = self.cancel.timed_out();
    }

    fn accept_result(&mut self, number: usize, result: Option<PartialResult>) {
        if self.abandoned.remove(&number) {
            return;
        }
        let (Some(task), Some(result)) = (self.in_flight.remove(&number), result) else {
            self.stats.add_failed_scan();
            return;
        };
        self.stats.bytes_scanned += result.scanned_bytes;
        self.stats.damaged.extend(result.damaged);
        self.stats.timed_out = self.cancel.timed_out();
        self.match_bytes += result.matches.bytes();
        let task = match result.resume_id {
            // After the time limit no unit is scanned again.
            Some(id) if self.stats.timed_out.is_none() => self.requeue(task, id),
            _ => task,
        };
        if let Some(id) = result.matches.peek() {
            self.heap.push(Reverse((self.order.key(id), number)));
            self.matches.insert(number, (task, result.matches));
        }
    }

    /// Queues a scan of the unit from `id` on. Returns the task for the records before it.
    fn requeue(&mut self, task: ScanTask, id: Id) -> ScanTask {
        let (before, rest) = task.request.split_at(id);
        let key = self.order.key(id);
        let at = self.pending.partition_point(|task| task.key <= key);
        self.pending.insert(at, ScanTask { key, unit: task.unit.clone(), request: Arc::new(rest) });
        ScanTask { request: Arc::new(before), ..task }
    }

    /// Ends the search, possibly early, and counts it.
    pub(crate) fn finish(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let seconds = (self.engine.env.clock.uptime() - self.started).as_secs_f64();
        self.engine.metrics.count_query(&self.stats, seconds, self.is_cancelled());
        self.engine.metrics.in_flight.dec();
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if !self.is_finished {
            self.cancel.cancel();
        }
        self.finish();
    }
}
