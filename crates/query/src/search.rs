//! A search: units in the order of the answer, a few of them in flight, merged by id as they come in.
//!
//! Records may be handed out up to the *frontier*: the first id that a unit which is not yet scanned could hold. Units are
//! begun in the order of that id, so the frontier moves on steadily, and where units do not overlap nothing waits for
//! anything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bucksaw_record::Id;
use bucksaw_scan::Plan;

use crate::dispatch::Dispatch;
use crate::engine::Engine;
use crate::match_buffer::{RecordRef, RecordRun, SealedMatches};
use crate::partial_result::PartialResult;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::result_budget::{QueryAccount, ResultReservation};
use crate::snapshot::units;
use crate::stats::QueryStats;
use crate::unit::Unit;

/// Records of a batch, and of a run of them. A batch ends with what reaches this.
const BATCH_RECORDS: usize = 2_048;

/// Few, for what they find is held until it is its turn.
const JOBS_PER_THREAD: usize = 2;

/// Bytes of a batch, and of a run, in the same way.
const BATCH_BYTES: usize = 256 << 10;

/// An answer that comes as it is asked for. Dropping it stops the work.
pub struct Search {
    engine: Arc<Engine>,
    order: Order,
    limit: Option<u64>,
    plan: Arc<Plan>,
    cancel: Cancel,
    account: QueryAccount,
    /// What is still to be scanned, in the order of the answer.
    pending: VecDeque<ScanTask>,
    /// What is being scanned, by number.
    in_flight: BTreeMap<usize, ScanTask>,
    dispatch: Dispatch<PartialResult>,
    /// Scans whose results are not waited for any more.
    abandoned: BTreeSet<usize>,
    /// What was found and not handed out, by the key of its next record.
    heap: BinaryHeap<Reverse<(u128, usize)>>,
    matches: BTreeMap<usize, (ScanTask, SealedMatches)>,
    /// Memory that the matches took so far.
    match_bytes: u64,
    next_number: usize,
    last: Option<Id>,
    stats: QueryStats,
    progress: SearchProgress,
    started: Duration,
    is_finished: bool,
}

/// How far a search has come, for who watches while it looks for the next record. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchProgress(Arc<Mutex<(u128, QueryStats)>>);

impl SearchProgress {
    /// The lowest place in the answer that a record may have which is still to be shown, and what was read so far.
    pub(crate) fn get(&self) -> (u128, QueryStats) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, place: u128, stats: &QueryStats) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (place, stats.clone());
    }
}

/// A unit to be scanned, for the records that the request says.
#[derive(Clone)]
struct ScanTask {
    /// The lowest that one of its records can have.
    key: u128,
    unit: Arc<Unit>,
    request: Arc<Request>,
}

/// How the reader sees records.
enum RecordVisitor<'a> {
    /// One by one.
    Records(&'a mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>),
    /// As many at once as lie one behind the other.
    Runs(&'a mut dyn FnMut(RecordRun<'_>)),
}

/// Some records, on their way to the reader.
struct OutputBatch<'a> {
    visitor: RecordVisitor<'a>,
    records: usize,
    bytes: usize,
    is_stopped: bool,
}

impl OutputBatch<'_> {
    /// Shows the next records; gives the last one's id and their number, of which at most `most` are wanted.
    fn push_from(&mut self, found: &mut SealedMatches, most: u64, wanted: impl Fn(Id) -> bool) -> Option<(Id, u64)> {
        let (last, records, bytes) = match &mut self.visitor {
            RecordVisitor::Records(see) => found.visit_next(|record| {
                self.is_stopped = see(record).is_break();
                (record.id, 1, record.text.len())
            })?,
            RecordVisitor::Runs(see) => {
                // However much of the batch is left: runs are shared, and the larger they are the better.
                let records_max = usize::try_from(most).unwrap_or(usize::MAX).min(BATCH_RECORDS);
                found.visit_run(records_max, BATCH_BYTES, wanted, |run| {
                    see(run);
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

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search")
            .field("waiting", &self.pending.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts a search over the records that this node holds now.
    ///
    /// # Errors
    /// [`RequestError::Expression`].
    pub fn search(self: &Arc<Self>, request: Request, cancel: Cancel) -> Result<Search, RequestError> {
        let cancel = self.with_time_limit(&cancel);
        let plan = Plan::compile(&request.expr)?;
        Ok(Search::start(Arc::clone(self), request, plan, cancel))
    }
}

impl Search {
    fn start(engine: Arc<Engine>, request: Request, plan: Plan, cancel: Cancel) -> Self {
        let mut stats = QueryStats::default();
        let units = units(&engine, &request, &plan, &mut stats);
        let (order, limit, request) = (request.order, request.limit, Arc::new(request));
        let task = |unit: Unit| {
            let first = match order {
                Order::Ascending => unit.low(),
                Order::Descending => unit.high(),
            };
            ScanTask { key: order.key(first), unit: Arc::new(unit), request: Arc::clone(&request) }
        };
        let mut waiting: Vec<ScanTask> = units.into_iter().map(task).collect();
        waiting.sort_by_key(|task| task.key);
        let dispatch = Dispatch::new(&engine, cancel.clone(), JOBS_PER_THREAD);
        engine.metrics.in_flight.inc();
        cancel.pause_time_limit();
        Self {
            started: engine.env.clock.uptime(),
            account: engine.result_budget.account(),
            engine,
            order,
            limit,
            plan: Arc::new(plan),
            cancel,
            pending: waiting.into(),
            in_flight: BTreeMap::new(),
            dispatch,
            abandoned: BTreeSet::new(),
            heap: BinaryHeap::new(),
            matches: BTreeMap::new(),
            match_bytes: 0,
            next_number: 0,
            last: None,
            stats,
            progress: SearchProgress::default(),
            is_finished: false,
        }
    }

    /// Shows the next records, in order, until there are many or `see` has enough; gives their number, which is 0 at the
    /// end, or when the search was cancelled. Waits for the first of them, not for many.
    pub fn visit_batch(&mut self, see: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) -> usize {
        self.show_some(RecordVisitor::Records(see))
    }

    /// The same for who wants records as they came in: shows as many at once as it can.
    pub fn visit_runs(&mut self, see: &mut dyn FnMut(RecordRun<'_>)) -> usize {
        self.show_some(RecordVisitor::Runs(see))
    }

    fn show_some(&mut self, see: RecordVisitor<'_>) -> usize {
        self.cancel.resume_time_limit();
        let records = self.show_next(see);
        self.cancel.pause_time_limit();
        records
    }

    fn show_next(&mut self, see: RecordVisitor<'_>) -> usize {
        let mut batch = OutputBatch { visitor: see, records: 0, bytes: 0, is_stopped: false };
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
        batch.records
    }

    /// Gives back all memory, at the price of searching again for what was found and not handed out: for a reader who
    /// stalls. Waits for the scans that are under way.
    pub fn release_memory(&mut self) {
        while !self.in_flight.is_empty() && !self.cancel.is_cancelled() {
            self.wait_for_scan();
        }
        self.heap.clear();
        for (task, found) in std::mem::take(&mut self.matches).into_values() {
            if let Some(id) = found.peek() {
                self.requeue(task, id);
            }
        }
    }

    /// Tells how far it has come, from any thread.
    pub(crate) fn progress(&self) -> SearchProgress {
        self.progress.clone()
    }

    /// What the answer rests on so far; complete when [`Self::show_batch`] had none.
    #[must_use]
    pub fn stats(&self) -> &QueryStats {
        &self.stats
    }

    /// Whether it was cancelled, so that there is more than was handed out.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.stats.matched >= limit)
    }

    /// Keeps the threads busy, as far as there is memory for what they find: also while the reader takes what was found.
    /// When all of them are done it is the reader's turn.
    fn start_scans(&mut self) {
        while let Some((number, part)) = self.dispatch.try_receive() {
            self.accept_result(number, part);
        }
        while self.in_flight.len() < self.dispatch.in_flight_max() {
            let Some(next) = self.pending.front() else { return };
            // What can be handed out already should be, before more is searched.
            let ready = self.heap.peek().is_some_and(|Reverse((ready, _))| *ready <= next.key);
            if ready && self.in_flight.is_empty() {
                return;
            }
            let Some(share) = self.reserve_for(&next.unit) else { return };
            if let Some(task) = self.pending.pop_front() {
                self.start_scan(task, share);
            }
        }
    }

    /// Memory for what a unit will probably give; `None` when there is too little and the search can go on without.
    fn reserve_for(&self, unit: &Unit) -> Option<ResultReservation> {
        let found = u128::from(self.match_bytes) * u128::from(unit.text_bytes());
        let expected = found / u128::from(self.stats.bytes_scanned.max(1));
        let part = self.engine.result_budget.min_reservation_bytes();
        let share = self.account.try_reserve(u64::try_from(expected).unwrap_or(u64::MAX).max(part));
        share.or_else(|| self.in_flight.is_empty().then(|| self.account.force_reserve(part)))
    }

    fn start_scan(&mut self, task: ScanTask, share: ResultReservation) {
        let number = self.next_number;
        self.next_number += 1;
        // The last record that was handed out may be found once more.
        let left = self.limit.map(|limit| limit - self.stats.matched.min(limit) + u64::from(self.last.is_some()));
        let limit = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let (plan, cancel, pieces) = (Arc::clone(&self.plan), self.cancel.clone(), self.engine.match_pools.clone());
        self.in_flight.insert(number, task.clone());
        let bytes = task.unit.scan_bytes();
        self.dispatch.submit(number, bytes, move || {
            PartialResult::scan(&task.unit, &task.request, &plan, &cancel, limit, share, pieces)
        });
    }

    /// Up to where records may be handed out.
    fn frontier(&self) -> u128 {
        let waiting = self.pending.front().map(|task| task.key);
        let in_flight = self.in_flight.values().map(|task| task.key).min();
        waiting.into_iter().chain(in_flight).min().unwrap_or(u128::MAX)
    }

    fn emit(&mut self, batch: &mut OutputBatch<'_>) {
        let frontier = self.frontier();
        while let Some(Reverse((first, number))) = self.heap.peek().copied() {
            if first > frontier || self.is_full() || batch.is_full() {
                return;
            }
            self.heap.pop();
            let others = self.heap.peek().map_or(u128::MAX, |Reverse((key, _))| *key).min(frontier);
            let Some((_, found)) = self.matches.get_mut(&number) else { continue };
            let order = self.order;
            let mut next = None;
            while let Some(id) = found.peek() {
                let key = order.key(id);
                let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.stats.matched));
                if key > others || left == 0 || batch.is_full() {
                    next = Some(key);
                    break;
                }
                // Equal ids are the same record, from another copy.
                if self.last == Some(id) {
                    found.visit_next(|_| ());
                    continue;
                }
                let Some((last, records)) = batch.push_from(found, left, |id| order.key(id) <= others) else { break };
                self.last = Some(last);
                self.stats.matched += records;
            }
            match next {
                Some(key) => self.heap.push(Reverse((key, number))),
                None => drop(self.matches.remove(&number)),
            }
        }
    }

    fn wait_for_scan(&mut self) {
        match self.dispatch.receive() {
            Some((number, part)) => self.accept_result(number, part),
            None if self.cancel.is_cancelled() => {}
            None => {
                // The time limit is reached, and these do not end.
                self.abandoned.extend(std::mem::take(&mut self.in_flight).into_keys());
                self.stop_at_time_limit();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_empty()
    }

    /// Leaves out what is not being scanned yet. What was found, and what the scans under way still find, is handed out.
    fn stop_at_time_limit(&mut self) {
        self.pending.clear();
        self.stats.timed_out = self.cancel.timed_out();
    }

    /// Takes what a unit gave.
    fn accept_result(&mut self, number: usize, part: Option<PartialResult>) {
        if self.abandoned.remove(&number) {
            return;
        }
        let (Some(task), Some(part)) = (self.in_flight.remove(&number), part) else {
            self.stats.damaged.insert("a segment could not be searched: internal error".to_owned());
            return;
        };
        self.stats.bytes_scanned += part.scanned_bytes;
        self.stats.damaged.extend(part.damaged);
        self.stats.timed_out = self.cancel.timed_out();
        self.match_bytes += part.matches.bytes();
        let task = match part.resume_id {
            // After the time limit nothing is searched for again.
            Some(rest) if self.stats.timed_out.is_none() => self.requeue(task, rest),
            _ => task,
        };
        if let Some(id) = part.matches.peek() {
            self.heap.push(Reverse((self.order.key(id), number)));
            self.matches.insert(number, (task, part.matches));
        }
    }

    /// Lets a unit wait for its turn to be scanned from `id` on; what comes before in the answer is returned.
    fn requeue(&mut self, task: ScanTask, id: Id) -> ScanTask {
        let (before, rest) = task.request.split_at(id);
        let key = self.order.key(id);
        let at = self.pending.partition_point(|waiting| waiting.key <= key);
        self.pending.insert(at, ScanTask { key, unit: Arc::clone(&task.unit), request: Arc::new(rest) });
        ScanTask { request: Arc::new(before), ..task }
    }

    /// Ends it where it is, as if it had come to its end: others that share its [`Cancel`] go on.
    pub(crate) fn finish_early(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
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
