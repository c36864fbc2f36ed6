//! Scanning blocks of columns: the columns are asked which lines match, and these are handed over before they are built.

use std::ops::{ControlFlow, Range};

use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_search::{Bitmap, RowSet, SearchBlock};
use bucksaw_segment::{ColumnarBlock, StreamSlice};

use crate::column_lines::ColumnLines;
use crate::request::{Cancel, Order, Request};
use crate::text_scan::{MatchChunk, Visit};

/// Hands over the matching records of each stream, of each at most `most`, from the side where the answer begins. Returns
/// the bytes of text that were searched; `None` when the block is damaged.
pub(crate) fn scan(
    block: &ColumnarBlock,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    most: usize,
    each: Visit<'_>,
) -> Option<u64> {
    let wanted = requested_rows(block, request);
    if wanted == RowSet::None {
        return Some(0);
    }
    let mut evaluated: Vec<(BoundPlan, RowSet)> = Vec::new();
    let mut scanned = 0;
    for (stretch, lines) in slices_with_lines(block) {
        if cancel.should_stop() {
            break;
        }
        if !request.overlaps(&stretch.rows) || !request.matches_stream(&stretch.labels) {
            continue;
        }
        scanned += stretch.range.len() as u64;
        let mut bound = plan.bind(&stretch.labels);
        let rows = match evaluated.iter().find(|(known, _)| known.is_equivalent(&bound)) {
            Some((_, rows)) => rows,
            None => {
                let rows = bound.match_rows(&block.columns, wanted.clone(), &|| cancel.should_stop())?;
                evaluated.push((bound, rows));
                evaluated.last().map(|(_, rows)| rows)?
            }
        };
        if visit_matching_lines(block, stretch, lines, rows, request.order, most, each)?.is_break() {
            break;
        }
    }
    Some(scanned)
}

/// The stretches with their lines.
fn slices_with_lines(block: &ColumnarBlock) -> impl Iterator<Item = (&StreamSlice, Range<usize>)> {
    let mut end = 0;
    block.slices.iter().map(move |stretch| {
        let start = end;
        end += stretch.rows.count as usize;
        (stretch, start..end)
    })
}

/// The lines whose time and stream are asked for.
fn requested_rows(block: &ColumnarBlock, request: &Request) -> RowSet {
    let inside = |stretch: &StreamSlice| {
        let span = stretch.rows.id_range();
        span.is_some_and(|(low, high)| request.contains(low) && request.contains(high))
    };
    if block.slices.iter().all(|stretch| request.matches_stream(&stretch.labels) && inside(stretch)) {
        return RowSet::All;
    }
    let mut bits = Bitmap::new(block.columns.row_count());
    for (stretch, lines) in slices_with_lines(block).filter(|(stretch, _)| request.matches_stream(&stretch.labels)) {
        for run in &stretch.rows.runs {
            // Ids of a run are consecutive, so what is wanted of it is too.
            let from = lines.start + run.row as usize;
            bits.set_range(from + run.count_below(request.from) as usize..from + run.count_below(request.to) as usize);
        }
    }
    RowSet::from_bitmap(bits)
}

fn visit_matching_lines(
    block: &ColumnarBlock,
    stretch: &StreamSlice,
    lines: Range<usize>,
    rows: &RowSet,
    order: Order,
    most: usize,
    each: Visit<'_>,
) -> Option<ControlFlow<()>> {
    let all = *rows == RowSet::All || lines.clone().all(|line| rows.contains(line));
    let first = lines.start;
    let picked = if all && most >= lines.len() {
        None
    } else {
        let row = |line: usize| (line - first) as u32;
        let picked: Vec<u32> = match order {
            Order::Descending if most < lines.len() => rows.last_in(lines, most).into_iter().map(row).collect(),
            _ => rows.first_in(lines, most).map(row).collect(),
        };
        if picked.is_empty() {
            return Some(ControlFlow::Continue(()));
        }
        Some(picked)
    };
    let lines = ColumnLines::new(block, stretch, first, picked);
    let flow = each(MatchChunk::Lines(&lines));
    (!lines.is_damaged()).then_some(flow)
}
