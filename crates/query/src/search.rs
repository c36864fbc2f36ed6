//! A search: units in the order of the answer, a few of them in flight, merged by id as they come in.
//!
//! Records may be handed out up to the *frontier*: the first id that a unit which is not yet scanned could hold. Units are
//! begun in the order of that id, so the frontier moves on steadily, and where units do not overlap nothing waits for
//! anything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::Id;
use bucksaw_scan::Plan;

use crate::dispatch::Dispatch;
use crate::engine::Engine;
use crate::hits::{Hit, Hits, Ids, Record};
use crate::request::{Cancel, Order, Request};
use crate::stats::Stats;
use crate::unit::{Unit, scan, units};

/// Records of a batch, at most.
const BATCH_RECORDS: usize = 2_048;

/// Bytes of a batch, at most but for the last record.
const BATCH_BYTES: usize = 512 << 10;

/// Matches that were found and may not be handed out yet: beyond this many bytes no further unit is begun.
const HELD_BYTES_MAX: usize = 32 << 20;

/// An answer that comes as it is asked for. Dropping it stops the work.
pub struct Search {
    engine: Arc<Engine>,
    request: Arc<Request>,
    plan: Arc<Plan>,
    cancel: Cancel,
    waiting: VecDeque<(u128, Unit)>,
    /// Keys of the units in flight, by number.
    in_flight: BTreeMap<usize, u128>,
    dispatch: Dispatch<Scanned>,
    /// What was found and not handed out, by the key of its next record.
    heap: BinaryHeap<Reverse<(u128, usize)>>,
    found: BTreeMap<usize, Found>,
    held_bytes: usize,
    next_number: usize,
    last: Option<Id>,
    stats: Stats,
    started: Duration,
    told: bool,
}

struct Found {
    hits: Arc<Hits>,
    /// The next one, counted from the side that the answer begins at.
    at: usize,
}

struct Scanned {
    hits: Hits,
    bytes: u64,
    damaged: Vec<String>,
}

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search")
            .field("waiting", &self.waiting.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Search {
    pub(crate) fn start(engine: Arc<Engine>, request: Request, plan: Plan, cancel: Cancel) -> Self {
        let mut stats = Stats::default();
        let units = units(&engine.queue, &engine.shelf, &request, &plan, &mut stats);
        let first = |unit: &Unit| match request.order {
            Order::Ascending => key(request.order, unit.low()),
            Order::Descending => key(request.order, unit.high()),
        };
        let mut waiting: Vec<(u128, Unit)> = units.into_iter().map(|unit| (first(&unit), unit)).collect();
        waiting.sort_by_key(|(key, _)| *key);
        let dispatch = Dispatch::new(&engine, cancel.clone());
        engine.metrics.in_flight.inc();
        Self {
            started: engine.doors.clock.uptime(),
            engine,
            request: Arc::new(request),
            plan: Arc::new(plan),
            cancel,
            waiting: waiting.into(),
            in_flight: BTreeMap::new(),
            dispatch,
            heap: BinaryHeap::new(),
            found: BTreeMap::new(),
            held_bytes: 0,
            next_number: 0,
            last: None,
            stats,
            told: false,
        }
    }

    /// The next records, in order; empty at the end, or when the search was cancelled. Waits for the first of them, not
    /// for many.
    pub fn next_batch(&mut self) -> Vec<Record> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while !self.is_full() && !self.cancel.is_cancelled() {
            self.begin_units();
            self.hand_out(&mut batch, &mut bytes);
            if batch.len() >= BATCH_RECORDS || bytes >= BATCH_BYTES {
                break;
            }
            if self.in_flight.is_empty() {
                if self.waiting.is_empty() && self.heap.is_empty() {
                    break;
                }
                continue;
            }
            if !batch.is_empty() {
                break;
            }
            self.wait_for_unit();
        }
        if batch.is_empty() {
            self.finish();
        }
        batch
    }

    /// What the answer rests on so far; complete when [`Self::next_batch`] came back empty.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether it was cancelled, so that there is more than was handed out.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.request.limit.is_some_and(|limit| self.stats.matched >= limit)
    }

    fn begin_units(&mut self) {
        while self.in_flight.len() < self.dispatch.window() {
            if self.held_bytes >= HELD_BYTES_MAX && !self.in_flight.is_empty() {
                return;
            }
            // What can be handed out already should be, before more is searched.
            let ready = self.heap.peek().map(|Reverse((key, _))| *key);
            match (ready, self.waiting.front()) {
                (Some(ready), Some((next, _))) if ready <= *next && self.in_flight.is_empty() => return,
                _ => {}
            }
            let Some((key, unit)) = self.waiting.pop_front() else { return };
            let number = self.next_number;
            self.next_number += 1;
            self.in_flight.insert(number, key);
            let (request, plan, cancel) = (Arc::clone(&self.request), Arc::clone(&self.plan), self.cancel.clone());
            let limit = request.limit.map(|limit| limit - self.stats.matched.min(limit));
            self.dispatch.launch(number, move || scan_unit(&unit, &request, &plan, &cancel, limit));
        }
    }

    /// Up to where records may be handed out.
    fn frontier(&self) -> u128 {
        let waiting = self.waiting.front().map(|(key, _)| *key);
        let in_flight = self.in_flight.values().min().copied();
        waiting.into_iter().chain(in_flight).min().unwrap_or(u128::MAX)
    }

    fn hand_out(&mut self, batch: &mut Vec<Record>, bytes: &mut usize) {
        let frontier = self.frontier();
        while let Some(Reverse((first, number))) = self.heap.peek().copied() {
            if first > frontier || self.is_full() || batch.len() >= BATCH_RECORDS || *bytes >= BATCH_BYTES {
                return;
            }
            self.heap.pop();
            let others = self.heap.peek().map_or(u128::MAX, |Reverse((key, _))| *key).min(frontier);
            let Some(found) = self.found.get_mut(&number) else { continue };
            let mut next = None;
            while let Some(hit) = hit_at(&found.hits, self.request.order, found.at) {
                let key = key(self.request.order, hit.id);
                let full = self.request.limit.is_some_and(|limit| self.stats.matched >= limit);
                if key > others || full || batch.len() >= BATCH_RECORDS || *bytes >= BATCH_BYTES {
                    next = Some(key);
                    break;
                }
                found.at += 1;
                // Equal ids are the same record, from another copy.
                if self.last.replace(hit.id) != Some(hit.id) {
                    let record = found.hits.record(hit);
                    *bytes += record.text().len();
                    self.stats.matched += 1;
                    batch.push(record);
                }
            }
            match next {
                Some(key) => self.heap.push(Reverse((key, number))),
                None => {
                    self.held_bytes -= found.hits.bytes();
                    self.found.remove(&number);
                }
            }
        }
    }

    fn wait_for_unit(&mut self) {
        let Some((number, scanned)) = self.dispatch.receive() else { return };
        self.in_flight.remove(&number);
        let Some(scanned) = scanned else {
            self.stats.damaged.insert("a part that could not be searched because of a bug".to_owned());
            return;
        };
        self.stats.bytes_scanned += scanned.bytes;
        self.stats.damaged.extend(scanned.damaged);
        let hits = Arc::new(scanned.hits);
        if let Some(hit) = hit_at(&hits, self.request.order, 0) {
            self.heap.push(Reverse((key(self.request.order, hit.id), number)));
            self.held_bytes += hits.bytes();
            self.found.insert(number, Found { hits, at: 0 });
        }
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let seconds = (self.engine.doors.clock.uptime() - self.started).as_secs_f64();
        self.engine.metrics.answered(&self.stats, seconds, self.is_cancelled());
        self.engine.metrics.in_flight.dec();
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if !self.told {
            self.cancel.cancel();
        }
        self.finish();
    }
}

/// The place of an id in the order of the answer.
fn key(order: Order, id: Id) -> u128 {
    match order {
        Order::Ascending => id.bits(),
        Order::Descending => !id.bits(),
    }
}

fn hit_at(hits: &Hits, order: Order, at: usize) -> Option<&Hit> {
    match order {
        Order::Ascending => hits.list.get(at),
        Order::Descending => hits.list.get(hits.list.len().checked_sub(at + 1)?),
    }
}

fn scan_unit(unit: &Unit, request: &Request, plan: &Plan, cancel: &Cancel, limit: Option<u64>) -> Scanned {
    let mut hits = Hits::default();
    let mut damaged = Vec::new();
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let bytes = scan(unit, request, plan, cancel, &mut damaged, &mut |chunk, bound| {
        let stream = hits.stream(chunk.labels);
        let mut ids = Ids::new(&chunk.rows);
        let sorted = chunk.rows.is_sorted();
        let before = hits.list.len();
        bound.find(chunk, &|| cancel.is_cancelled(), &mut |found| {
            let id = ids.of(found.row);
            if request.wants(id) {
                hits.push(id, found.row, stream, chunk, found.start..found.end);
            }
            // No chunk needs to give more than the whole answer may have.
            let enough = request.order == Order::Ascending && hits.list.len() - before >= limit;
            if sorted && (enough || id >= request.to) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if request.order == Order::Descending && sorted && hits.list.len() - before > limit {
            let surplus = hits.list.len() - before - limit;
            hits.list.drain(before..before + surplus);
        }
        ControlFlow::Continue(())
    });
    hits.sort();
    hits.shrink();
    Scanned { hits, bytes, damaged }
}
