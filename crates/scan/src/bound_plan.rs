//! A plan for one stream, which searches chunks and blocks.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::RecordView;
use bucksaw_search::{Bitmap, CancelPoll, RowSet, SearchBlock, SkipFilter};
use bucksaw_segment::{Chunk, RecordBlock};

use crate::candidate_rows::{CandidateRows, evaluate, may_match};
use crate::cursor::Cursor;
use crate::plan_node::PlanNode;
use crate::record_boundaries::{RecordBoundaries, ScanWindow};
use crate::search_costs::SearchCosts;

/// The size of a scan window, in bytes: at worst some milliseconds of work between two polls of `cancel`. A window
/// stays in a core's cache while all terms search it.
const WINDOW_BYTES: usize = 256 * 1024;

/// The largest kept buffer for built rows, in bytes: a window and a row that fills it.
const BATCH_TEXT_BYTES_MAX: usize = 2 * WINDOW_BYTES;

thread_local! {
    /// The buffer for built rows, which a thread keeps from block to block: clearing new memory is much of the work for a few rows.
    static BATCH_TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A plan for the records of one stream, used by one thread. Binding again for another thread is cheap.
#[derive(Debug)]
pub enum BoundPlan {
    /// No record matches; the text need not be read.
    Nothing,
    /// Every record matches; the text need not be read to count them.
    All,
    /// Each record is tested.
    PerRecord(Matcher),
}

/// Finds matching records. It carries no state from chunk to chunk.
#[derive(Debug)]
pub struct Matcher {
    node: PlanNode,
    cursor: Cursor,
    window_bytes: usize,
    /// Those of the query, to which searches of text add.
    costs: Arc<SearchCosts>,
}

/// A matching record of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedRecord {
    /// Its row in the chunk.
    pub row: u32,
    /// The offset of its start in the chunk's text.
    pub start: usize,
    /// The offset of the LF behind it.
    pub end: usize,
}

impl BoundPlan {
    pub(crate) fn new(node: &PlanNode, costs: &Arc<SearchCosts>) -> Self {
        let window_bytes = node.slice_bytes().min(WINDOW_BYTES);
        match (node, Cursor::new(node)) {
            (PlanNode::All, _) => Self::All,
            (_, Some(cursor)) => {
                Self::PerRecord(Matcher { node: node.clone(), cursor, window_bytes, costs: Arc::clone(costs) })
            }
            (_, None) => Self::Nothing,
        }
    }

    /// Calls `each` for the matching records of `chunk`, in the order of their rows, until it breaks. Polls `cancel` at
    /// least every 256 KiB of text, also inside a long record that a regex searches. Finds nothing after a
    /// cancellation.
    pub fn find(
        &mut self,
        chunk: &Chunk<'_>,
        cancel: &dyn Fn() -> bool,
        each: &mut dyn FnMut(MatchedRecord) -> ControlFlow<()>,
    ) {
        let mut every;
        let matcher = match self {
            Self::Nothing => return,
            Self::All => match Cursor::new(&PlanNode::All) {
                Some(cursor) => {
                    let costs = Arc::new(SearchCosts::new(0, 0));
                    every = Matcher { node: PlanNode::All, cursor, window_bytes: WINDOW_BYTES, costs };
                    &mut every
                }
                None => return,
            },
            Self::PerRecord(matcher) => matcher,
        };
        find_records(matcher, &RecordBoundaries::of_chunk(chunk), chunk.rows.count, cancel, each);
    }

    /// The number of records of `chunk` that match. Polls `cancel` as [`Self::find`] does; the count may be too low after a
    /// cancellation.
    pub fn count(&mut self, chunk: &Chunk<'_>, cancel: &dyn Fn() -> bool) -> u32 {
        let all = chunk.rows.count;
        match self {
            Self::Nothing => 0,
            Self::All => all,
            Self::PerRecord(Matcher { node, cursor, window_bytes, costs }) => {
                let counted = (node.text_weight(), &**costs);
                match cursor.negated_inner() {
                    // Finding the few records that match the member is faster than finding all others.
                    Some(inner) => match count_records(inner, *window_bytes, counted, chunk, cancel) {
                        (others, ControlFlow::Continue(())) => all - others,
                        _ => 0,
                    },
                    None => count_records(cursor, *window_bytes, counted, chunk, cancel).0,
                }
            }
        }
    }

    /// Whether both plans consist of the same terms, so that they find the same records.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) | (Self::Nothing, Self::Nothing) => true,
            (Self::PerRecord(mine), Self::PerRecord(others)) => mine.node.is_equivalent(&others.node),
            _ => false,
        }
    }

    /// Whether a record of a block with this filter may match; `false` is certain. With `has_attributes`, records of
    /// the block may have attributes; their names are not in the filter.
    pub fn may_match(&self, filter: impl SkipFilter, has_attributes: bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::PerRecord(matcher) => may_match(&matcher.node, filter, has_attributes),
        }
    }

    /// The records of `wanted` that match. Builds only the records that the block cannot decide itself. `None`
    /// if the block is damaged. Polls `cancel` as [`Self::find`] does, and before each term; records may be missing after a
    /// cancellation.
    pub fn match_rows<B: SearchBlock>(
        &mut self,
        block: RecordBlock<'_, B>,
        wanted: RowSet,
        cancel: &dyn Fn() -> bool,
    ) -> Option<RowSet> {
        let matcher = match self {
            Self::Nothing => return Some(RowSet::None),
            Self::All => return Some(wanted),
            Self::PerRecord(matcher) => matcher,
        };
        let cancel_poll = CancelPoll::new(cancel);
        let CandidateRows { must_match, may_match } = evaluate(&matcher.node, block, wanted, &cancel_poll)?;
        if cancel_poll.is_cancelled() {
            return Some(RowSet::None);
        }
        let undecided = match may_match & !must_match.clone() {
            RowSet::None => return Some(must_match),
            RowSet::All => Bitmap::full(block.record_count()),
            RowSet::Some(bits) => bits,
        };
        let found = Bitmap::new(block.record_count());
        if !block.is_identity() {
            let matched = match_records(matcher, block, &undecided, cancel, found)?;
            return Some(must_match | RowSet::from_bitmap(matched));
        }
        let text = BATCH_TEXT.take();
        let mut batch = RowBatch { matcher, cancel, text, lines: 0, rows: undecided.iter(), found };
        block.lines().visit_rows(undecided.iter(), &mut |row| batch.push(row))?;
        let _ = batch.match_batch();
        if batch.text.capacity() <= BATCH_TEXT_BYTES_MAX {
            BATCH_TEXT.set(batch.text);
        }
        Some(must_match | RowSet::Some(batch.found))
    }

    /// Whether one record matches. Agrees with [`Self::find`].
    pub fn matches(&self, record: RecordView<'_>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::PerRecord(matcher) => matcher.cursor.matches_record(record, &CancelPoll::never()),
        }
    }
}

/// The matching ones of the undecided records, each built and tested alone; `None` if the block is damaged.
fn match_records<B: SearchBlock>(
    matcher: &Matcher,
    block: RecordBlock<'_, B>,
    undecided: &Bitmap,
    cancel: &dyn Fn() -> bool,
    mut found: Bitmap,
) -> Option<Bitmap> {
    let (cancel_poll, mut records, mut unpolled) = (CancelPoll::new(cancel), undecided.iter(), 0);
    block.visit(undecided.iter(), &mut |record| {
        unpolled += record.text().len() + 1;
        if unpolled >= WINDOW_BYTES {
            unpolled = 0;
            if cancel_poll.poll() {
                return ControlFlow::Break(());
            }
        }
        let Some(row) = records.next() else { return ControlFlow::Break(()) };
        if matcher.cursor.matches_record(record, &cancel_poll) && !cancel_poll.is_cancelled() {
            found.set(row);
        }
        ControlFlow::Continue(())
    })?;
    Some(found)
}

/// Rows of a block that were built but not yet tested, one scan window at a time: they stay in a core's cache, and the
/// buffer is reused.
struct RowBatch<'a, R> {
    matcher: &'a mut Matcher,
    cancel: &'a dyn Fn() -> bool,
    text: Vec<u8>,
    lines: usize,
    /// The numbers of the rows that are not yet tested.
    rows: R,
    found: Bitmap,
}

impl<R: Iterator<Item = usize>> RowBatch<'_, R> {
    fn push(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.text.extend_from_slice(line);
        self.lines += 1;
        if self.text.len() < WINDOW_BYTES { ControlFlow::Continue(()) } else { self.match_batch() }
    }

    /// Tests the batch and empties it; breaks when cancelled.
    fn match_batch(&mut self) -> ControlFlow<()> {
        let Self { matcher, cancel, text, lines, rows, found } = self;
        let records = RecordBoundaries::of_lines(text);
        let (mut counted, mut left) = (0, std::mem::take(lines));
        let flow = scan_windows(&mut matcher.cursor, matcher.window_bytes, None, &records, cancel, &mut |start, _| {
            let before = records.count_between(counted, start);
            if let Some(row) = rows.nth(before) {
                found.set(row);
            }
            left = left.saturating_sub(before + 1);
            counted = records.next_start(start);
            ControlFlow::Continue(())
        });
        if let Some(others) = left.checked_sub(1) {
            rows.nth(others);
        }
        text.clear();
        flow
    }
}

/// Calls `each` for the matching ones of `count` records, until it breaks.
pub(crate) fn find_records(
    matcher: &mut Matcher,
    records: &RecordBoundaries<'_>,
    count: u32,
    cancel: &dyn Fn() -> bool,
    each: &mut dyn FnMut(MatchedRecord) -> ControlFlow<()>,
) {
    let (mut row, mut counted) = (0, 0);
    let costs = Some((matcher.node.text_weight(), &*matcher.costs));
    let _ = scan_windows(&mut matcher.cursor, matcher.window_bytes, costs, records, cancel, &mut |start, next| {
        row += records.count_between(counted, start) as u32;
        counted = start;
        // A chunk whose text has more records than it declares is damaged; the rest have no ids.
        if row >= count {
            return ControlFlow::Break(());
        }
        each(MatchedRecord { row, start, end: next - 1 })
    });
}

/// The number of matching records; breaks when cancelled, with a part of them.
fn count_records(
    cursor: &mut Cursor,
    window_bytes: usize,
    counted: (u64, &SearchCosts),
    chunk: &Chunk<'_>,
    cancel: &dyn Fn() -> bool,
) -> (u32, ControlFlow<()>) {
    let mut count = 0_u32;
    let records = RecordBoundaries::of_chunk(chunk);
    let flow = scan_windows(cursor, window_bytes, Some(counted), &records, cancel, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    (count.min(chunk.rows.count), flow)
}

/// Calls `each` with the start of each matching record and of the next record, window by window. `counted` has the work per byte
/// of text and the costs to which the work is added.
fn scan_windows(
    cursor: &mut Cursor,
    window_bytes: usize,
    counted: Option<(u64, &SearchCosts)>,
    records: &RecordBoundaries<'_>,
    cancel: &dyn Fn() -> bool,
    each: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (cancel_poll, work, mut from) = (CancelPoll::new(cancel), Cell::new(0), 0);
    let flow = scan_each_window(cursor, window_bytes, records, (&cancel_poll, &work), &mut from, each);
    if let Some((text_weight, costs)) = counted {
        costs.add_text(from, work.get().saturating_add(from as u64 * text_weight));
    }
    flow
}

/// As [`scan_windows`]; `from` is the end of the text that was searched.
fn scan_each_window(
    cursor: &mut Cursor,
    window_bytes: usize,
    records: &RecordBoundaries<'_>,
    (cancel_poll, work): (&CancelPoll<'_>, &Cell<u64>),
    from: &mut usize,
    each: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> ControlFlow<()> {
    while *from < records.text.len() {
        if cancel_poll.poll() {
            return ControlFlow::Break(());
        }
        let end = records.next_start(from.saturating_add(window_bytes) - 1);
        let window = ScanWindow { records, end, cancel_poll, work };
        cursor.reset();
        while let Some(start) = cursor.seek(&window, *from) {
            // A match found after a cancellation is meaningless.
            if cancel_poll.is_cancelled() {
                break;
            }
            *from = records.next_start(start);
            each(start, *from)?;
        }
        if cancel_poll.is_cancelled() {
            return ControlFlow::Break(());
        }
        *from = window.end;
    }
    ControlFlow::Continue(())
}
