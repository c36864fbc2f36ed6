//! Scanning blocks of columns: the columns are asked which lines match, and only those are built that are wanted.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bucksaw_columns::{Bits, Rows};
use bucksaw_scan::{Bound, Plan};
use bucksaw_segment::{Chunk, Columned, Stretch};

use crate::request::{Cancel, Order, Request};
use crate::unit::Visit;

/// What a scan wants of the records that match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Whether it reads their text. If not, the chunks that it is given may have none.
    pub(crate) text: bool,
    /// How many of a chunk are enough, from the side where the answer begins.
    pub(crate) most: usize,
}

/// Hands over the matching records of each stream as a chunk of which all match. Returns the bytes of text that were
/// searched; `None` when the block is damaged.
pub(crate) fn scan(
    block: &Columned,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    want: Want,
    each: Visit<'_>,
) -> Option<u64> {
    let wanted = wanted(block, request);
    if wanted == Rows::None {
        return Some(0);
    }
    let mut judged: Vec<(Bound, Rows)> = Vec::new();
    let mut scanned = 0;
    for (stretch, lines) in stretches(block) {
        if cancel.is_cancelled() {
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
                let rows = bound.lines(&block.columns, wanted.clone(), &|| cancel.is_cancelled())?;
                judged.push((bound, rows));
                judged.last().map(|(_, rows)| rows)?
            }
        };
        if hand_over(block, stretch, lines, rows, request.order, want, each)?.is_break() {
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
    want: Want,
    each: Visit<'_>,
) -> Option<ControlFlow<()>> {
    let all = *rows == Rows::All || lines.clone().all(|line| rows.has(line));
    if all && want.most >= lines.len() {
        return send(block, stretch, Arc::clone(&stretch.rows), lines, want, each);
    }
    let found = lines.clone().filter(|line| rows.has(*line));
    let picked: Vec<usize> = match order {
        Order::Ascending => found.take(want.most).collect(),
        Order::Descending => {
            let mut last: Vec<usize> = found.rev().take(want.most).collect();
            last.reverse();
            last
        }
    };
    if picked.is_empty() {
        return Some(ControlFlow::Continue(()));
    }
    let rows = Arc::new(stretch.rows.select(picked.iter().map(|line| (line - lines.start) as u32)));
    send(block, stretch, rows, picked.into_iter(), want, each)
}

fn send(
    block: &Columned,
    stretch: &Stretch,
    rows: Arc<bucksaw_segment::Rows>,
    lines: impl Iterator<Item = usize>,
    want: Want,
    each: Visit<'_>,
) -> Option<ControlFlow<()>> {
    let text = if want.text { block.columns.lines(lines)? } else { Vec::new() };
    Some(each(&Chunk { labels: &stretch.labels, rows, text: &text }, &mut Bound::All))
}
