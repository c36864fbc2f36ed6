//! Scans columnar blocks: the columns decide which records match, and these are passed on before they are built.

use std::cell::Cell;
use std::ops::Range;

use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_search::{Bitmap, RowSet, SearchBlock as _};
use bucksaw_segment::{ColumnarBlock, StreamSlice};

use crate::column_records::ColumnRecords;
use crate::request::{Cancel, Request};
use crate::text_scan::{MatchChunk, Visit};

/// How a scan of columns ended.
pub(crate) enum ColumnScan {
    /// At its end, or where it was cancelled: the bytes of text scanned, and the work of finding matching records, without that of
    /// building them.
    Done { scanned: u64, work: u64 },
    /// It took more work than it was allowed. Nothing was passed on.
    TooDear,
}

/// Passes the matching records of each stream to `visit`, at most `limit` per stream, from the start of the answer. Searches
/// columns with at most about `work_max` units of work before it passes on the first record. `None` if the block is damaged.
pub(crate) fn scan(
    block: &ColumnarBlock,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    (limit, work_max): (usize, u64),
    visit: Visit<'_>,
) -> Option<ColumnScan> {
    let requested = requested_rows(block, request);
    if requested == RowSet::None {
        return Some(ColumnScan::Done { scanned: 0, work: 0 });
    }
    let records = block.records()?;
    let work_end = records.lines().work().saturating_add(work_max);
    let (may_stop, is_too_dear) = (Cell::new(true), Cell::new(false));
    let should_stop = || {
        // Rows that were found after this are meaningless.
        is_too_dear.set(is_too_dear.get() || (may_stop.get() && records.lines().work() > work_end));
        is_too_dear.get() || cancel.should_stop()
    };
    let mut evaluated: Vec<(BoundPlan, RowSet)> = Vec::new();
    let (mut scanned, mut work) = (0, 0);
    for (slice, rows_of_slice) in slices_with_rows(block) {
        if cancel.should_stop() {
            break;
        }
        if !request.wants(&slice.labels, &slice.rows) {
            continue;
        }
        scanned += slice.range.len() as u64;
        let mut bound = plan.bind(&slice.labels);
        let rows = match evaluated.iter().find(|(known, _)| known.is_equivalent(&bound)) {
            Some((_, rows)) => rows,
            None => {
                let before = records.lines().work();
                let rows = bound.match_rows(records, requested.clone(), &should_stop)?;
                if is_too_dear.get() {
                    return Some(ColumnScan::TooDear);
                }
                work += records.lines().work() - before;
                evaluated.push((bound, rows));
                evaluated.last().map(|(_, rows)| rows)?
            }
        };
        may_stop.set(false);
        let records = ColumnRecords::new(block, (slice, rows_of_slice), rows, (request.order, limit));
        if records.count() == 0 {
            continue;
        }
        let flow = visit(MatchChunk::Columns(&records));
        if records.is_damaged() {
            return None;
        }
        if flow.is_break() {
            break;
        }
    }
    Some(ColumnScan::Done { scanned, work })
}

/// The slices with the numbers of their records in the block.
fn slices_with_rows(block: &ColumnarBlock) -> impl Iterator<Item = (&StreamSlice, Range<usize>)> {
    let mut end = 0;
    block.slices.iter().map(move |slice| {
        let start = end;
        end += slice.rows.count as usize;
        (slice, start..end)
    })
}

/// The records of the requested time range and stream.
fn requested_rows(block: &ColumnarBlock, request: &Request) -> RowSet {
    let is_inside = |slice: &StreamSlice| {
        let range = slice.rows.id_range();
        range.is_some_and(|(low, high)| request.contains(low) && request.contains(high))
    };
    if block.slices.iter().all(|slice| request.matches_stream(&slice.labels) && is_inside(slice)) {
        return RowSet::All;
    }
    let mut bits = Bitmap::new(block.slices.iter().map(|slice| slice.rows.count as usize).sum());
    for (slice, rows) in slices_with_rows(block).filter(|(slice, _)| request.matches_stream(&slice.labels)) {
        for run in &slice.rows.runs {
            // The ids of a run are consecutive, so its requested rows are too.
            let start = rows.start + run.row as usize;
            let below = |id| start + run.count_below(id) as usize;
            bits.set_range(below(request.from)..below(request.to));
        }
    }
    RowSet::from_bitmap(bits)
}
