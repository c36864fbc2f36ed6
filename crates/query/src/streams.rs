//! The streams of a time range with their numbers of records, without reading a line.
//!
//! A block stores the ids of each stream apart from the text, in a hundredth of its bytes; for a block with one stream
//! the summary is enough. Queue segments are few, and are read. Bitmaps count ids that may occur twice, so the records
//! of one node are exact. Of a stream that is requested in part, the bytes are divided in proportion to the records.
//!
//! Over several nodes the numbers are estimates: an exact sum would need the ids of all records of the range. A
//! histogram by stream is exact, for the streams that it names.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_env::file_name;
use bucksaw_ingest::{SegmentState, SegmentView};
use bucksaw_record::{Expr, Id, Labels, Producer, RecordView};
use bucksaw_scan::Plan;
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::{Rows, StreamSlice};
use bucksaw_store::{RangeStream, RecordRange};
use roaring::RoaringBitmap;

use crate::block::BlockUnit;
use crate::count::units_sharing_ids;
use crate::engine::Engine;
use crate::request::{Cancel, Request, RequestError};
use crate::result_budget::ResultReservation;
use crate::snapshot::{units, with_retention};
use crate::stats::QueryStats;
use crate::unit::{Unit, damage_name, visit_frames};

/// Part of the memory of queries for the streams of one answer, and its bounds.
const MEMORY_DIVISOR: u64 = 4;
const MEMORY_BYTES_MIN: u64 = 16 << 10;
const MEMORY_BYTES_MAX: u64 = 16 << 20;

/// Memory of a stream besides its labels.
const STREAM_COST_BYTES: usize = 160;

/// Blocks whose ids are read for one answer. The records of further ones are divided evenly among their streams; not for a
/// client with a label scope, because that would show it the records of others.
const BLOCKS_READ_MAX: usize = 4_000;

/// Streams of a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The streams, those with most records first.
    pub streams: Vec<StreamSize>,
    /// Whether the numbers of records are estimates.
    pub is_approximate: bool,
    /// Whether there are more streams than fit in memory.
    pub is_cut: bool,
}

/// A stream with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSize {
    /// Its labels.
    pub labels: Labels,
    /// Its records in the time range.
    pub records: u64,
    /// Bytes of their text, estimated.
    pub bytes: u64,
}

/// Records and bytes of a stream, apart by where they are: stores have replicas, queues have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamTally {
    pub(crate) queued: Amount,
    pub(crate) stored: Amount,
}

/// Records, and bytes of their text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, other: Self) {
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// A part of it, rounded up.
    fn part(self, divisor: u64) -> Self {
        Self { records: self.records.div_ceil(divisor), bytes: self.bytes.div_ceil(divisor) }
    }
}

/// The streams found so far, within a memory limit.
pub(crate) struct StreamTallies {
    streams: HashMap<Labels, StreamTally>,
    bytes_left: usize,
    pub(crate) is_cut: bool,
    pub(crate) is_approximate: bool,
    _reservation: ResultReservation,
}

impl StreamTallies {
    pub(crate) fn new(engine: &Engine) -> Self {
        let bytes = (engine.config.result_bytes_max / MEMORY_DIVISOR).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX);
        Self {
            streams: HashMap::new(),
            bytes_left: usize::try_from(bytes).unwrap_or(usize::MAX),
            is_cut: false,
            is_approximate: false,
            _reservation: engine.result_budget.account().force_reserve(bytes),
        }
    }

    /// The tally of a stream; `None` if there is no memory for a new one.
    pub(crate) fn tally(&mut self, labels: &Labels) -> Option<&mut StreamTally> {
        if !self.streams.contains_key(labels) {
            let cost = labels.iter().map(|(name, value)| name.len() + value.len() + 64).sum::<usize>();
            let Some(left) = self.bytes_left.checked_sub(cost + STREAM_COST_BYTES) else {
                self.is_cut = true;
                return None;
            };
            self.bytes_left = left;
        }
        Some(self.streams.entry(labels.clone()).or_default())
    }

    pub(crate) fn into_tallies(self) -> impl Iterator<Item = (Labels, StreamTally)> {
        self.streams.into_iter()
    }

    /// The streams. Each stored record was counted `replicas` times.
    pub(crate) fn finish(self, replicas: u64) -> Streams {
        let size = |(labels, tally): (Labels, StreamTally)| {
            let mut sum = tally.stored.part(replicas.max(1));
            sum.add(tally.queued);
            StreamSize { labels, records: sum.records, bytes: sum.bytes }
        };
        let mut streams: Vec<StreamSize> = self.streams.into_iter().map(size).collect();
        streams.sort_unstable_by(|a, b| b.records.cmp(&a.records).then_with(|| a.labels.cmp(&b.labels)));
        Streams { streams, is_approximate: self.is_approximate, is_cut: self.is_cut }
    }
}

/// Whether the labels of a stream decide the expression, if fields that are no labels count as missing.
pub(crate) fn is_about_labels(expr: &Expr) -> bool {
    match expr {
        Expr::All | Expr::Field(_) => true,
        // Every record contains it.
        Expr::Literal(literal) => literal.bytes.is_empty(),
        Expr::And(members) | Expr::Or(members) => members.iter().all(is_about_labels),
        Expr::Not(inner) => is_about_labels(inner),
        _ => false,
    }
}

impl Engine {
    /// As [`Answers::streams`](crate::Answers::streams), over the records of this node.
    pub(crate) fn stream_tallies(
        self: &Arc<Self>,
        request: &Request,
        cancel: &Cancel,
    ) -> Result<(StreamTallies, QueryStats), RequestError> {
        let (cancel, started) = (self.with_time_limit(cancel), self.env.clock.uptime());
        let plan = Plan::compile(&request.expr)?;
        let queued = self.queue.readable_segments();
        let committed = queued.iter().filter(|segment| segment.state() == SegmentState::Committed);
        let committed: HashSet<Id> = committed.map(|segment| segment.id()).collect();
        let mut stats = QueryStats::default();
        let request = &with_retention(self, request.clone());
        let units = units(self, request, &plan, &mut stats);
        let shares = units_sharing_ids(&units);
        let tallies = StreamTallies::new(self);
        let reservation = self.result_budget.account().force_reserve(0);
        let (ids, blocks_left) = (HashMap::new(), BLOCKS_READ_MAX);
        let mut count = StreamCount { request, plan, tallies, ids, id_bytes: 0, reservation, blocks_left };
        for (unit, may_share_ids) in units.iter().zip(shares) {
            if cancel.should_stop() {
                break;
            }
            match unit {
                // Stores have its records.
                Unit::Queue(view) if committed.contains(&view.id) => {}
                Unit::Queue(view) => count.add_queue_segment(view, &cancel, &mut stats),
                Unit::Block(block) => count.add_block(block, may_share_ids, &mut stats),
                Unit::Range(range) => count.add_range(&**range, &cancel, &mut stats),
            }
        }
        if cancel.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        stats.timed_out = cancel.timed_out();
        self.metrics.count_query(&stats, (self.env.clock.uptime() - started).as_secs_f64(), false);
        Ok((count.tallies, stats))
    }
}

/// A count of streams that runs.
struct StreamCount<'a> {
    request: &'a Request,
    plan: Plan,
    tallies: StreamTallies,
    /// Ids of records that may occur twice on this node.
    ids: HashMap<(Labels, Producer), RoaringBitmap>,
    id_bytes: usize,
    reservation: ResultReservation,
    blocks_left: usize,
}

impl StreamCount<'_> {
    /// Whether a stream is requested: its labels match the filter, tested with an empty line.
    fn is_requested(&self, labels: &Labels) -> bool {
        self.request.matches_stream(labels) && self.plan.matches(labels, RecordView::line_only(b""))
    }

    fn add_queue_segment(&mut self, view: &SegmentView, cancel: &Cancel, stats: &mut QueryStats) {
        let (mut damaged, request) = (Vec::new(), self.request);
        let mut add = |chunk: &bucksaw_segment::Chunk<'_>| {
            if self.is_requested(chunk.labels) && self.request.retains(chunk.labels, chunk.rows.newest()) {
                // A queue segment may contain a frame twice, after a client sent it again.
                let records = self.add_ids(chunk.labels, &chunk.rows);
                let bytes = share(chunk.text.len() as u64, records, u64::from(chunk.rows.count));
                self.add(chunk.labels, |tally| &mut tally.queued, Amount { records, bytes });
            }
            if cancel.should_stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        visit_frames(view, HEADER_LEN as u64, &request.erasures, &mut add, &mut |error| {
            view.report_unreadable();
            damaged.push(damage_name(&error, file_name(view.path())));
        });
        stats.damaged.extend(damaged);
    }

    fn add_block(&mut self, unit: &BlockUnit, may_share_ids: bool, stats: &mut QueryStats) {
        let (source, index) = (&unit.block.source, unit.block.index);
        let (streams, Some(summary)) = (source.streams(index), source.summary(index)) else { return };
        let is_inside = self.request.contains(summary.low) && self.request.contains(summary.high);
        let whole = Amount { records: summary.records, bytes: summary.text_bytes };
        if let [only] = streams.as_slice()
            && is_inside
            && !may_share_ids
            && source.is_exact(index)
        {
            if self.is_requested(only) && self.request.retains(only, summary.newest()) {
                self.add(only, |tally| &mut tally.stored, whole);
            }
            return;
        }
        let must_read = self.request.scope.is_some() || !source.is_exact(index);
        let left = self.blocks_left.checked_sub(1).or(must_read.then_some(0));
        let Some(left) = left else {
            self.tallies.is_approximate = true;
            let each = whole.part(streams.len().max(1) as u64);
            for labels in streams {
                if self.is_requested(labels) && self.request.retains(labels, summary.newest()) {
                    self.add(labels, |tally| &mut tally.stored, each);
                }
            }
            return;
        };
        self.blocks_left = left;
        match source.slices(index) {
            Ok(slices) => {
                for StreamSlice { labels, rows, range } in &slices {
                    if !self.is_requested(labels) || !self.request.retains(labels, rows.newest()) {
                        continue;
                    }
                    let records = if may_share_ids { self.add_ids(labels, rows) } else { self.count_requested(rows) };
                    let bytes = share(range.len() as u64, records, u64::from(rows.count));
                    self.add(labels, |tally| &mut tally.stored, Amount { records, bytes });
                }
            }
            Err(_) => _ = stats.damaged.insert(source.name()),
        }
    }

    /// Adds the streams that a database counts. Records that it has twice count twice.
    fn add_range(&mut self, range: &dyn RecordRange, cancel: &Cancel, stats: &mut QueryStats) {
        match range.streams((self.request.from, self.request.to), &|| cancel.should_stop()) {
            Ok(streams) => {
                for RangeStream { labels, records, bytes } in streams {
                    if self.is_requested(&labels) {
                        self.add(&labels, |tally| &mut tally.stored, Amount { records, bytes });
                    }
                }
            }
            Err(error) => _ = stats.damaged.insert(error.0),
        }
    }

    fn add(&mut self, labels: &Labels, of: impl FnOnce(&mut StreamTally) -> &mut Amount, amount: Amount) {
        if amount.records > 0
            && let Some(tally) = self.tallies.tally(labels)
        {
            of(tally).add(amount);
        }
    }

    /// The number of requested rows.
    fn count_requested(&self, rows: &Rows) -> u64 {
        let Request { from, to, .. } = *self.request;
        rows.runs.iter().map(|run| u64::from(run.count_below(to) - run.count_below(from))).sum()
    }

    /// Adds the ids of the requested rows, and returns how many are new.
    fn add_ids(&mut self, labels: &Labels, rows: &Rows) -> u64 {
        let Request { from, to, .. } = *self.request;
        let mut new = 0;
        for run in &rows.runs {
            let (below, end) = (run.count_below(from), run.count_below(to));
            if below < end {
                let seen = self.ids.entry((labels.clone(), run.first_id.producer())).or_default();
                let (first, bytes) = (run.first_id.sequence(), seen.serialized_size());
                new += seen.insert_range(first + below..=first + (end - 1));
                self.id_bytes = (self.id_bytes + seen.serialized_size()).saturating_sub(bytes);
            }
        }
        self.reservation.resize(self.id_bytes as u64);
        new
    }
}

/// The part of `bytes` that `records` of `all` have.
fn share(bytes: u64, records: u64, all: u64) -> u64 {
    (u128::from(bytes) * u128::from(records) / u128::from(all.max(1))) as u64
}
