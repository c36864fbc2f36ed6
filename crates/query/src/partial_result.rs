//! The result of one scan of a unit: the first matches in answer order that fit in memory.
//!
//! When memory runs out, the result ends at an id, and a later scan of the unit resumes there. A scan finds records in
//! no reliable order, so it drops matches that come later in the answer to make room for earlier ones. A second scan
//! costs time only when memory is short, and then all scans wait for the reader anyway. Rejected: keeping all matches
//! of a unit, because a slow reader then holds as much memory as its largest unit; and resuming at file positions,
//! because they have no order by id.
//!
//! Invariant: a result with a `resume_id` has at least one record, so every scan advances the answer.

use std::ops::ControlFlow;

use bucksaw_record::{Id, RecordView};
use bucksaw_scan::Plan;
use bucksaw_segment::Rows;

use crate::match_buffer::{MatchBuffer, MatchBufferPools, RowIds, SealedMatches};
use crate::request::{Cancel, Order, Request};
use crate::result_budget::ResultReservation;
use crate::text_scan::{MatchChunk, ScanContent};
use crate::unit::Unit;

/// The matches of a unit, or the first of them.
#[derive(Debug)]
pub(crate) struct PartialResult {
    pub(crate) matches: SealedMatches,
    /// The first id that was left out for lack of memory.
    pub(crate) resume_id: Option<Id>,
    pub(crate) scanned_bytes: u64,
    pub(crate) damaged: Vec<String>,
}

impl PartialResult {
    /// Scans a unit for at most `limit` records. The matches fit in `reservation`, which grows while memory is free.
    pub(crate) fn scan(
        unit: &Unit,
        request: &Request,
        plan: &Plan,
        cancel: &Cancel,
        limit: usize,
        reservation: ResultReservation,
        pools: MatchBufferPools,
    ) -> Self {
        let buffer = MatchBuffer::new(matches!(unit, Unit::Block(_) | Unit::Range(_)), pools);
        let mut top = TopMatches { order: request.order, limit, reservation, buffer, last_key: 0, cutoff: None };
        let mut damaged = Vec::new();
        let mut rows_until_poll = 0;
        let is_ordered = matches!(unit, Unit::Range(_));
        let scan = (limit, ScanContent::Records);
        let scanned_bytes = unit.scan(request, plan, cancel, scan, &mut damaged, &mut |matches| {
            let (labels, rows) = match &matches {
                MatchChunk::Text(chunk, _) => (chunk.labels, &*chunk.rows),
                MatchChunk::Columns(records) => (records.labels(), records.slice_rows()),
            };
            if top.is_past_cutoff(rows) {
                return if is_ordered { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            let stream = top.buffer.stream_index(labels);
            let mut ids = RowIds::new(rows);
            let sorted = rows.is_sorted();
            let mut offer = |row: u32, record: RecordView<'_>| {
                let id = ids.id_of_row(row);
                if request.contains(id) {
                    top.offer(id, stream, rows, row, record);
                }
                // The ids of sorted rows ascend.
                let done = id >= request.to || (request.order == Order::Ascending && !top.accepts(id));
                if sorted && done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            match matches {
                MatchChunk::Text(chunk, bound) => bound.find(chunk, &|| cancel.should_stop(), &mut |found| {
                    let text = chunk.text.get(found.start..found.end).unwrap_or_default();
                    offer(found.row, RecordView::new(text, rows.attributes(found.row)))
                }),
                MatchChunk::Columns(records) => records.for_each(&mut |row, record| {
                    if poll_cancel(&mut rows_until_poll, cancel) { ControlFlow::Break(()) } else { offer(row, record) }
                }),
            }
            ControlFlow::Continue(())
        });
        let (matches, resume_id) = top.finish();
        Self { matches, resume_id, scanned_bytes, damaged }
    }
}

/// Whether to stop. Polls `cancel` once per 65 rows.
pub(crate) fn poll_cancel(rows_until_poll: &mut u32, cancel: &Cancel) -> bool {
    const CANCEL_POLL_ROWS: u32 = 64;
    let left = rows_until_poll.checked_sub(1);
    *rows_until_poll = left.unwrap_or(CANCEL_POLL_ROWS);
    left.is_none() && cancel.should_stop()
}

/// Collects the matches that come first in the answer, within a record limit and a memory limit.
struct TopMatches {
    order: Order,
    limit: usize,
    reservation: ResultReservation,
    buffer: MatchBuffer,
    /// The highest key in the buffer.
    last_key: u128,
    cutoff: Option<Cutoff>,
}

/// The first id that can no longer be part of the result.
#[derive(Clone, Copy)]
struct Cutoff {
    id: Id,
    /// Whether memory, rather than the record limit, is the reason: then the scan must resume here.
    is_memory_bound: bool,
}

impl TopMatches {
    fn key(&self, id: Id) -> u128 {
        self.order.key(id)
    }

    fn accepts(&self, id: Id) -> bool {
        self.cutoff.is_none_or(|cutoff| self.key(id) < self.key(cutoff.id))
    }

    fn is_past_cutoff(&self, rows: &Rows) -> bool {
        rows.id_range().is_some_and(|(low, high)| !self.accepts(low) && !self.accepts(high))
    }

    fn offer(&mut self, id: Id, stream: u32, rows: &Rows, row: u32, record: RecordView<'_>) {
        if !self.accepts(id) || !(self.buffer.has_room_for(record) || self.reserve(id, record)) {
            return;
        }
        self.last_key = self.last_key.max(self.key(id));
        self.buffer.push(id, stream, rows, row, record);
        if self.buffer.len() / 2 >= self.limit.max(32) {
            self.sort();
            self.truncate(self.limit, false);
        }
    }

    /// Reserves memory for one more record and drops later ones for it if necessary. `false` if the record itself comes
    /// last.
    fn reserve(&mut self, id: Id, record: RecordView<'_>) -> bool {
        // Dropping records below may leave this one after the cutoff.
        while self.accepts(id) {
            let bytes = self.buffer.bytes_with(record);
            if self.reservation.try_grow(bytes) {
                return true;
            }
            if self.buffer.len() == 0 {
                // A result must have a record.
                self.reservation.resize(bytes);
                return true;
            }
            if self.key(id) == self.last_key {
                return false; // a replica of it
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

    /// Keeps the first `count` of the sorted records.
    fn truncate(&mut self, count: usize, is_memory_bound: bool) {
        if let Some(id) = self.buffer.truncate(count) {
            self.cutoff = Some(Cutoff { id, is_memory_bound });
            self.last_key = self.buffer.last().map_or(0, |id| self.key(id));
        }
    }

    /// The matches, and the id from which a scan must resume.
    fn finish(mut self) -> (SealedMatches, Option<Id>) {
        self.sort();
        self.truncate(self.limit, false);
        let is_complete = self.buffer.len() >= self.limit;
        let resume = self.cutoff.filter(|cutoff| cutoff.is_memory_bound && !is_complete);
        (self.buffer.seal(self.reservation), resume.map(|cutoff| cutoff.id))
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

    /// The top matches among records of 2,000 bytes with these numbers.
    fn offer(order: Order, limit: usize, memory: u64, numbers: &[u32]) -> (SealedMatches, Option<Id>) {
        let labels = Labels::default();
        let reservation = ResultBudget::new(0, Gauge::default()).account().force_reserve(memory);
        let buffer = MatchBuffer::default();
        let mut top = TopMatches { order, limit, reservation, buffer, last_key: 0, cutoff: None };
        let stream = top.buffer.stream_index(&labels);
        for number in numbers {
            let mut rows = Rows::default();
            rows.push_run(id(*number), 1);
            top.offer(id(*number), stream, &rows, 0, RecordView::line_only(text(*number).as_bytes()));
        }
        top.finish()
    }

    fn text(number: u32) -> String {
        format!("{number:2000}")
    }

    /// Expects the numbers of the top matches and the number to resume from.
    fn check(order: Order, limit: usize, memory: u64, numbers: &[u32], want: (&[u32], Option<u32>)) {
        let (mut matches, resume) = offer(order, limit, memory, numbers);
        let found: Vec<u32> = std::iter::from_fn(|| matches.visit_next(|record| record.id.sequence())).collect();
        assert_eq!((found.as_slice(), resume.map(Id::sequence)), want);
    }

    #[test]
    fn a_run_stays_within_its_slab() {
        // In either slab the second record starts where the first record of the other slab ends.
        let (mut matches, _) = offer(Order::Ascending, usize::MAX, 1 << 20, &[1, 9, 8, 2]);
        let mut lines = Vec::new();
        while matches.visit_run(100, 1 << 20, |_| true, |run| lines.extend_from_slice(run.lines)).is_some() {}
        let want: String = [1, 2, 8, 9].into_iter().map(|number| text(number) + "\n").collect();
        assert_eq!(lines, want.as_bytes());
    }

    #[test]
    fn the_first_matches_in_answer_order_are_kept() {
        let (up, down, all) = (Order::Ascending, Order::Descending, usize::MAX);
        // Memory for a slab of two records and some entries; and for the next slab, of eight records, too.
        let (two, ten) = ((4 << 10) + 4_000, (20 << 10) + 4_000);
        check(up, all, ten, &[3, 1, 2, 2, 1], (&[1, 2, 3], None));
        check(up, all, two, &[1, 2, 3, 4], (&[1, 2], Some(3)));
        check(up, all, two, &[4, 3, 2, 1], (&[1, 2], Some(3)));
        check(down, all, two, &[1, 2, 3, 4], (&[4, 3], Some(2)));
        check(down, all, two, &[4, 3, 2, 1], (&[4, 3], Some(2)));
        check(up, all, two, &[5, 5, 5, 5], (&[5], None));
        check(up, all, two, &[5, 6, 6, 5], (&[5], Some(6)));
        check(up, all, two, &[5, 5, 6, 6, 7], (&[5], Some(6)));
        // A forced reservation is one slab.
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
