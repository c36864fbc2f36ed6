//! Scanning blocks of columns: the columns are asked which lines match, and these are handed over before they are built.

use std::ops::{ControlFlow, Range};

use bucksaw_columns::{Bits, Rows};
use bucksaw_scan::{Bound, Plan};
use bucksaw_segment::{Columned, Stretch};

use crate::lines::Lines;
use crate::request::{Cancel, Order, Request};
use crate::unit::{Met, Visit};

/// Hands over the matching records of each stream, of each at most `most`, from the side where the answer begins. Returns
/// the bytes of text that were searched; `None` when the block is damaged.
pub(crate) fn scan(
    block: &Columned,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    most: usize,
    each: Visit<'_>,
) -> Option<u64> {
    let wanted = wanted(block, request);
    if wanted == Rows::None {
        return Some(0);
    }
    let mut judged: Vec<(Bound, Rows)> = Vec::new();
    let mut scanned = 0;
    for (stretch, lines) in stretches(block) {
        if cancel.stops() {
            break;
        }
        if !request.reaches(&stretch.rows) || !request.of_stream(&stretch.labels) {
            continue;
        }
        scanned += stretch.range.len() as u64;
        let mut bound = plan.bind(&stretch.labels);
        let rows = match judged.iter().find(|(known, _)| known.is_same(&bound)) {
            Some((_, rows)) => rows,
            None => {
                let rows = bound.lines(&block.columns, wanted.clone(), &|| cancel.stops())?;
                judged.push((bound, rows));
                judged.last().map(|(_, rows)| rows)?
            }
        };
        if hand_over(block, stretch, lines, rows, request.order, most, each)?.is_break() {
            break;
        }
    }
    Some(scanned)
}

/// The stretches with their lines.
fn stretches(block: &Columned) -> impl Iterator<Item = (&Stretch, Range<usize>)> {
    let mut end = 0;
    block.stretches.iter().map(move |stretch| {
        let start = end;
        end += stretch.rows.count as usize;
        (stretch, start..end)
    })
}

/// The lines whose time and stream are asked for.
fn wanted(block: &Columned, request: &Request) -> Rows {
    let inside = |stretch: &Stretch| {
        let span = stretch.rows.span();
        span.is_some_and(|(low, high)| request.wants(low) && request.wants(high))
    };
    if block.stretches.iter().all(|stretch| request.of_stream(&stretch.labels) && inside(stretch)) {
        return Rows::All;
    }
    let mut bits = Bits::new(block.columns.rows());
    for (stretch, lines) in stretches(block).filter(|(stretch, _)| request.of_stream(&stretch.labels)) {
        for run in &stretch.rows.runs {
            // Ids of a run are consecutive, so what is wanted of it is too.
            let from = lines.start + run.row as usize;
            bits.set_range(from + run.below(request.from) as usize..from + run.below(request.to) as usize);
        }
    }
    Rows::tidy(bits)
}

fn hand_over(
    block: &Columned,
    stretch: &Stretch,
    lines: Range<usize>,
    rows: &Rows,
    order: Order,
    most: usize,
    each: Visit<'_>,
) -> Option<ControlFlow<()>> {
    let all = *rows == Rows::All || lines.clone().all(|line| rows.has(line));
    let first = lines.start;
    let picked = if all && most >= lines.len() {
        None
    } else {
        let row = |line: usize| (line - first) as u32;
        let picked: Vec<u32> = match (order, rows) {
            (Order::Descending, _) if most < lines.len() => {
                let mut last: Vec<u32> = lines.rev().filter(|line| rows.has(*line)).take(most).map(row).collect();
                last.reverse();
                last
            }
            (_, Rows::Some(bits)) => bits.iter_in(lines).take(most).map(row).collect(),
            _ => lines.filter(|line| rows.has(*line)).take(most).map(row).collect(),
        };
        if picked.is_empty() {
            return Some(ControlFlow::Continue(()));
        }
        Some(picked)
    };
    let lines = Lines::new(block, stretch, first, picked);
    let flow = each(Met::Lines(&lines));
    (!lines.are_damaged()).then_some(flow)
}
