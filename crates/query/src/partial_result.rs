//! What a scan of one unit gives: its matches, from the answer's beginning on, as many as there is memory for.
//!
//! Where memory ends, the part ends at an id, and what lies behind it is the *rest*: found by another scan, when its turn
//! comes. A scan meets records in no order to rely on, so it always keeps those that are next in the answer: what is
//! farther away gives way to what is nearer. Scanning twice costs time, but only when memory is short, and then the
//! reader is what all wait for. (Rejected: holding all of a unit's matches, which made each slow reader cost what a unit
//! can hold; and places in the file to go on from, which say nothing about ids.)
//!
//! Invariant: a part with a rest has a record, so every scan brings the answer on.

use std::ops::ControlFlow;

use bucksaw_record::Id;
use bucksaw_scan::Plan;
use bucksaw_segment::Rows;

use crate::match_buffer::{MatchBuffer, MatchBufferPools, RowIds, SealedMatches};
use crate::request::{Cancel, Order, Request};
use crate::result_budget::ResultReservation;
use crate::text_scan::MatchChunk;
use crate::unit::{Unit, scan};

/// The matches of a unit, or the first of them.
#[derive(Debug)]
pub(crate) struct PartialResult {
    pub(crate) matches: SealedMatches,
    /// The first id of the others, when there are some.
    pub(crate) resume_id: Option<Id>,
    pub(crate) scanned_bytes: u64,
    pub(crate) damaged: Vec<String>,
}

impl PartialResult {
    /// Scans a unit for at most `limit` records, with what memory `share` has and can get.
    pub(crate) fn scan(
        unit: &Unit,
        request: &Request,
        plan: &Plan,
        cancel: &Cancel,
        limit: usize,
        share: ResultReservation,
        pools: MatchBufferPools,
    ) -> Self {
        let hits = MatchBuffer::new(matches!(unit, Unit::Block(_)), pools);
        let mut nearest =
            TopMatches { order: request.order, limit, reservation: share, buffer: hits, last_key: 0, cutoff: None };
        let mut damaged = Vec::new();
        let cancelled = || cancel.should_stop();
        let mut rows_to_look = 0_u32;
        let scanned_bytes = scan(unit, request, plan, cancel, limit, &mut damaged, &mut |records| {
            let (labels, rows) = match &records {
                MatchChunk::Text(chunk, _) => (chunk.labels, &*chunk.rows),
                MatchChunk::Lines(lines) => (lines.labels(), lines.slice_rows()),
            };
            if nearest.is_past_cutoff(rows) {
                return ControlFlow::Continue(());
            }
            let stream = nearest.buffer.stream_index(labels);
            let mut ids = RowIds::new(rows);
            let sorted = rows.is_sorted();
            let mut offer = |row: u32, record: &[u8]| {
                let id = ids.id_of_row(row);
                if request.contains(id) {
                    nearest.offer(id, stream, rows, row, record);
                }
                // The ids of sorted rows only rise.
                let done = id >= request.to || (request.order == Order::Ascending && !nearest.accepts(id));
                if sorted && done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            match records {
                MatchChunk::Text(chunk, bound) => bound.find(chunk, &cancelled, &mut |found| {
                    offer(found.row, chunk.text.get(found.start..found.end).unwrap_or_default())
                }),
                MatchChunk::Lines(lines) => lines.for_each_line(&mut |row, line| {
                    if poll_cancel(&mut rows_to_look, cancel) { ControlFlow::Break(()) } else { offer(row, line) }
                }),
            }
            ControlFlow::Continue(())
        });
        let (found, rest) = nearest.finish();
        Self { matches: found, resume_id: rest, scanned_bytes, damaged }
    }
}

/// Looks, before some of many lines that are handed over one by one, whether the work must stop.
pub(crate) fn poll_cancel(rows_until_poll: &mut u32, cancel: &Cancel) -> bool {
    const CANCEL_POLL_ROWS: u32 = 64;
    let left = rows_until_poll.checked_sub(1);
    *rows_until_poll = left.unwrap_or(CANCEL_POLL_ROWS);
    left.is_none() && cancel.should_stop()
}

/// Keeps, of the records that it is offered, those that come first in the answer.
struct TopMatches {
    order: Order,
    limit: usize,
    reservation: ResultReservation,
    buffer: MatchBuffer,
    /// The key of the last in the answer of those that are kept.
    last_key: u128,
    cutoff: Option<Cutoff>,
}

/// Where that which is kept ends.
#[derive(Clone, Copy)]
struct Cutoff {
    /// The first that is not wanted.
    id: Id,
    /// Whether for want of memory: then it will be asked for again. Else the limit is reached before.
    is_memory_bound: bool,
}

impl TopMatches {
    fn key(&self, id: Id) -> u128 {
        self.order.key(id)
    }

    fn accepts(&self, id: Id) -> bool {
        self.cutoff.is_none_or(|end| self.key(id) < self.key(end.id))
    }

    fn is_past_cutoff(&self, rows: &Rows) -> bool {
        rows.id_range().is_some_and(|(low, high)| !self.accepts(low) && !self.accepts(high))
    }

    fn offer(&mut self, id: Id, stream: u32, rows: &Rows, row: u32, record: &[u8]) {
        let there = |nearest: &mut Self| nearest.buffer.has_room_for(record.len()) || nearest.reserve(id, record.len());
        if !self.accepts(id) || !there(self) {
            return;
        }
        self.last_key = self.last_key.max(self.key(id));
        self.buffer.push(id, stream, rows, row, record);
        if self.buffer.len() / 2 >= self.limit.max(32) {
            self.sort();
            self.truncate(self.limit, false);
        }
    }

    /// Has memory for one more record, at the cost of those that come after it; `false` when it comes after all of them.
    fn reserve(&mut self, id: Id, length: usize) -> bool {
        // What is let go of below may leave this one behind the end, too.
        while self.accepts(id) {
            let bytes = self.buffer.bytes_with(length);
            if self.reservation.try_grow(bytes) {
                return true;
            }
            if self.buffer.len() == 0 {
                // One there must be.
                self.reservation.resize(bytes);
                return true;
            }
            if self.key(id) == self.last_key {
                return false; // another copy of it
            }
            if self.key(id) > self.last_key {
                self.cutoff = Some(Cutoff { id, is_memory_bound: true });
                return false;
            }
            self.sort();
            self.truncate(self.buffer.len() / 2, true);
        }
        false
    }

    fn sort(&mut self) {
        let order = self.order;
        self.buffer.sort(|id| order.key(id));
    }

    /// Keeps the first `count`, which are sorted.
    fn truncate(&mut self, count: usize, short: bool) {
        if let Some(id) = self.buffer.truncate(count) {
            self.cutoff = Some(Cutoff { id, is_memory_bound: short });
            self.last_key = self.buffer.last().map_or(0, |id| self.key(id));
        }
    }

    /// What was kept, and the first id of the rest.
    fn finish(mut self) -> (SealedMatches, Option<Id>) {
        self.sort();
        self.truncate(self.limit, false);
        let enough = self.buffer.len() >= self.limit;
        let rest = self.cutoff.filter(|end| end.is_memory_bound && !enough).map(|end| end.id);
        (self.buffer.seal(self.reservation), rest)
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Labels, Millis, Producer};
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::result_budget::ResultBudget;

    fn id(number: u32) -> Id {
        Id::new(Millis(5), Producer::new(1), number)
    }

    /// What is kept of records of 2,000 bytes with these numbers.
    fn offer(order: Order, limit: usize, memory: u64, numbers: &[u32]) -> (SealedMatches, Option<Id>) {
        let labels = Labels::default();
        let share = ResultBudget::new(0, Gauge::default()).account().force_reserve(memory);
        let mut nearest =
            TopMatches { order, limit, reservation: share, buffer: MatchBuffer::default(), last_key: 0, cutoff: None };
        let stream = nearest.buffer.stream_index(&labels);
        for number in numbers {
            let mut rows = Rows::default();
            rows.push_run(id(*number), 1);
            nearest.offer(id(*number), stream, &rows, 0, text(*number).as_bytes());
        }
        nearest.finish()
    }

    fn text(number: u32) -> String {
        format!("{number:2000}")
    }

    /// Offers records with these numbers; those that are kept, and the first of the rest, are these.
    fn check(order: Order, limit: usize, memory: u64, numbers: &[u32], want: (&[u32], Option<u32>)) {
        let (mut found, rest) = offer(order, limit, memory, numbers);
        let kept: Vec<u32> = std::iter::from_fn(|| found.visit_next(|record| record.id.sequence())).collect();
        assert_eq!((kept.as_slice(), rest.map(Id::sequence)), want);
    }

    #[test]
    fn a_run_stays_within_its_slab() {
        // The second record of either slab starts where the first of the other ends.
        let (mut found, _) = offer(Order::Ascending, usize::MAX, 1 << 20, &[1, 9, 8, 2]);
        let mut lines = Vec::new();
        while found.visit_run(100, 1 << 20, |_| true, |run| lines.extend_from_slice(run.lines)).is_some() {}
        let want: String = [1, 2, 8, 9].into_iter().map(|number| text(number) + "\n").collect();
        assert_eq!(lines, want.as_bytes());
    }

    #[test]
    fn the_first_matches_are_kept() {
        let (up, down, all) = (Order::Ascending, Order::Descending, usize::MAX);
        // A slab of two records and the places of some; or one with the next slab, of eight, as well.
        let (two, ten) = ((4 << 10) + 4_000, (20 << 10) + 4_000);
        check(up, all, ten, &[3, 1, 2, 2, 1], (&[1, 2, 3], None));
        check(up, all, two, &[1, 2, 3, 4], (&[1, 2], Some(3)));
        check(up, all, two, &[4, 3, 2, 1], (&[1, 2], Some(3)));
        check(down, all, two, &[1, 2, 3, 4], (&[4, 3], Some(2)));
        check(down, all, two, &[4, 3, 2, 1], (&[4, 3], Some(2)));
        check(up, all, two, &[5, 5, 5, 5], (&[5], None));
        check(up, all, two, &[5, 6, 6, 5], (&[5], Some(6)));
        check(up, all, two, &[5, 5, 6, 6, 7], (&[5], Some(6)));
        // What is taken by force is a slab.
        check(up, all, 0, &[2, 1, 3], (&[1, 2], Some(3)));
        check(down, all, 0, &[2, 1, 3], (&[3, 2], Some(1)));
        check(up, all, ten, &[2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 15], (&[2, 4, 6, 8, 10], Some(12)));
        check(up, 1, two, &[1, 2, 3, 4], (&[1], None));
        check(up, 3, two, &[1, 2, 3, 4], (&[1, 2], Some(3)));
        let many: Vec<u32> = (0..200).collect();
        check(up, 3, 1 << 20, &many, (&[0, 1, 2], None));
        check(down, 3, 1 << 20, &many, (&[199, 198, 197], None));
    }
}
