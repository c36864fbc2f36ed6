//! Units of work: a queue segment, or a block of a store segment. Which there are, which can be left out, and how one is
//! read.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_ingest::{Queue, QueueSegment, SegmentState, SegmentView};
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::{Chunk, ReadError, RecordSummary};
use bucksaw_store::{SegmentStore, StoredSegment};

use crate::block::BlockUnit;
use crate::column_lines::ColumnLines;
use crate::engine::Engine;
use crate::request::{Cancel, Request};
use crate::stats::{QueryStats, TrashStats};

/// Records of one stream, as a scan meets them.
pub(crate) enum MatchChunk<'a> {
    /// The plan tells which of them match.
    Text(&'a Chunk<'a>, &'a mut BoundPlan),
    /// All match.
    Lines(&'a ColumnLines<'a>),
}

/// What is called for records.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(MatchChunk<'_>) -> ControlFlow<()>;

/// What is read of a queue segment at a time, in bytes, frames of the greatest length aside.
const FRAMES_BYTES: u64 = 512 << 10;

/// The greatest frame that is usual: a section of an HTTP body, with a record of the greatest length at its end.
const FRAME_BYTES_MAX: u64 = 9 << 18;

/// Something to scan.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    Queue(Box<SegmentView>),
    Block(BlockUnit),
}

impl Unit {
    pub(crate) fn reach(&self) -> Option<&RecordSummary> {
        match self {
            Self::Queue(view) => Some(&view.reach),
            Self::Block(unit) => unit.reach(),
        }
    }

    pub(crate) fn low(&self) -> Id {
        self.reach().map_or(Id::MAX, |reach| reach.low)
    }

    pub(crate) fn high(&self) -> Id {
        self.reach().map_or(Id::MIN, |reach| reach.high)
    }

    /// Bytes of its text.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.reach().map_or(0, |reach| reach.text_bytes)
    }

    /// Memory, in bytes, that a scan of it takes, about: what is read, and what is unpacked of it.
    pub(crate) fn scan_bytes(&self) -> u64 {
        match self {
            // A window of the file, which holds the greatest frame, and what is known of its rows.
            Self::Queue(view) => {
                let window = (view.reach.text_bytes + FRAMES_BYTES / 8).min(FRAME_BYTES_MAX);
                window + window / 2
            }
            Self::Block(unit) => unit.scan_bytes(),
        }
    }

    /// Hands over the chunks one after the other until the visitor has enough. What is damaged is named, and what is
    /// whole behind it is handed over all the same.
    pub(crate) fn visit(&self, damaged: &mut Vec<String>, each: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>) {
        match self {
            Self::Queue(view) => visit_queue(view, damaged, each),
            Self::Block(BlockUnit { segment, block, .. }) => match segment.block(*block) {
                Ok(read) => {
                    let _ = read.chunks().try_for_each(|chunk| each(&chunk));
                }
                Err(error) => damaged.push(damage_name(&error, segment.reader().path())),
            },
        }
    }
}

fn visit_queue(view: &SegmentView, damaged: &mut Vec<String>, each: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>) {
    let mut frames = view.frames(HEADER_LEN as u64);
    if let Some(places) = view.salvaged_frames() {
        for place in places {
            frames.seek(place.offset);
            match frames.next_chunk() {
                Ok(Some(chunk)) if each(&chunk).is_continue() => {}
                Ok(_) => return,
                Err(error) => {
                    view.report_unreadable();
                    damaged.push(damage_name(&error, view.path()));
                }
            }
        }
        return;
    }
    loop {
        match frames.next_chunk() {
            Ok(Some(chunk)) if each(&chunk).is_continue() => {}
            Ok(_) => return,
            Err(error) => {
                view.report_unreadable();
                return damaged.push(damage_name(&error, view.path()));
            }
        }
    }
}

fn damage_name(error: &ReadError, path: &std::path::Path) -> String {
    match error {
        ReadError::Damaged { damage, .. } => format!("{} at byte {}", file_name(path), damage.offset),
        _ => file_name(path),
    }
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The units that may hold records of the request. Their number, what was left out and what is damaged go into the stats.
pub(crate) fn units(engine: &Engine, request: &Request, plan: &Plan, stats: &mut QueryStats) -> Vec<Unit> {
    let (queue, store) = (&engine.queue, &engine.store);
    // The queue first: what moves meanwhile is then seen twice, which the sources of the store's segments tell, rather
    // than not at all. Also what was handed over a moment ago: the store that has it, another node's, may have been looked
    // at before it came there.
    let mut waiting = queue.readable_segments();
    let segments = store.segments();
    let since = store.answers_since();
    let wants = |reach: &RecordSummary| may_contain(request, since, reach);
    waiting.retain(|segment| {
        let look = |state, reach: &RecordSummary| {
            let wanted = wants(reach);
            if !wanted && state != SegmentState::Committed {
                stats.bytes_skipped += reach.text_bytes;
                stats.segments_skipped += 1;
            }
            wanted
        };
        segment.with_summary(look).unwrap_or_default()
    });
    remove_stored(&mut waiting, &segments);
    let mut units = Vec::new();
    for view in waiting.iter().map(|segment| segment.view()) {
        let wanted = view.streams().iter().any(|labels| may_match(request, plan, labels));
        add_unit(Unit::Queue(Box::new(view)), wanted, &mut units, stats);
    }
    for segment in segments.iter() {
        let footer = segment.footer();
        let before = stats.segments_read;
        if wants(segment.reach()) {
            let streams: Vec<bool> = footer.streams.iter().map(|labels| may_match(request, plan, labels)).collect();
            // As it is now: of what is made good while the answer is on its way, another node's part may be older.
            let made_good = segment.re_replicated_blocks();
            for (block, entry) in footer.blocks.iter().enumerate() {
                let stream = entry.streams.iter().any(|stream| streams.get(*stream as usize).copied().unwrap_or(true));
                add_unit(
                    Unit::Block(BlockUnit {
                        segment: Arc::clone(segment),
                        block,
                        block_cache: Arc::clone(&engine.block_cache),
                    }),
                    stream && wants(&entry.summary) && !made_good.contains(&block),
                    &mut units,
                    stats,
                );
            }
        } else {
            stats.bytes_skipped += segment.reach().text_bytes;
        }
        // Blocks are units, but what is counted is segments.
        let read = u64::from(stats.segments_read > before);
        stats.segments_read = before + read;
        stats.segments_skipped += 1 - read;
    }
    record_missing(queue, store, request, stats);
    units
}

/// Leaves those segments of the queue that no segment of the store names as a source.
fn remove_stored(waiting: &mut Vec<Arc<QueueSegment>>, stored: &[Arc<StoredSegment>]) {
    let Some(oldest) = waiting.first().map(|segment| segment.id()) else { return };
    // Few wait and many segments may lie on the store, each naming many: so a set of the few, and of the many those that
    // can name one of them.
    let mut untaken: HashSet<Id> = waiting.iter().map(|segment| segment.id()).collect();
    let recent = stored.iter().filter(|segment| segment.newest_source() >= Some(oldest));
    for source in recent.flat_map(|segment| &segment.footer().sources) {
        untaken.remove(source);
    }
    waiting.retain(|segment| untaken.contains(&segment.id()));
}

fn add_unit(unit: Unit, wanted: bool, units: &mut Vec<Unit>, stats: &mut QueryStats) {
    if wanted {
        stats.segments_read += 1;
        units.push(unit);
    } else {
        stats.bytes_skipped += unit.text_bytes();
        if matches!(unit, Unit::Queue(_)) {
            stats.segments_skipped += 1;
        }
    }
}

/// Whether some records may be wanted: they are of the request's time, and not all past their retention, which removes
/// nothing older than `since`.
fn may_contain(request: &Request, since: Option<Millis>, reach: &RecordSummary) -> bool {
    let is_kept = since.is_none_or(|since| reach.newest() >= since);
    is_kept && request.from < request.to && reach.low < request.to && request.from <= reach.high
}

fn may_match(request: &Request, plan: &Plan, labels: &Labels) -> bool {
    request.matches_stream(labels) && !matches!(plan.bind(labels), BoundPlan::Nothing)
}

/// Files that were set aside may have held records of the request, and files in the trash have some.
fn record_missing(queue: &Queue, store: &SegmentStore, request: &Request, stats: &mut QueryStats) {
    let (from, to) = (request.from.time(), request.to.time());
    let meets = queue.damaged_files().into_iter().filter(|file| file.low <= to && from <= file.high);
    stats.damaged.extend(meets.map(|file| file.name));
    let meets = store.quarantined_files().into_iter();
    let meets = meets.filter(|broken| !broken.is_re_replicated() && broken.low <= to && from <= broken.high);
    stats.damaged.extend(meets.map(|broken| broken.name));
    for file in store.trashed().iter().filter(|file| file.low <= to && from <= file.high) {
        stats.trashed.add(TrashStats { segments: 1, records: file.records.unwrap_or_default() });
    }
}

/// Scans a unit: hands over chunks that may hold matches, with the plan for their stream; of columns, the lines that match,
/// of each stream at most `most`, from the side where the answer begins. Returns bytes scanned. `each` may end it.
pub(crate) fn scan(
    unit: &Unit,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    most: usize,
    damaged: &mut Vec<String>,
    each: Visit<'_>,
) -> u64 {
    match unit {
        Unit::Block(block) => match block.scan(request, plan, cancel, most, each) {
            Ok(scanned) => scanned,
            Err(error) => {
                damaged.push(damage_name(&error, block.segment.reader().path()));
                0
            }
        },
        Unit::Queue(_) => scan_text(request, plan, cancel, each, &mut |each| unit.visit(damaged, each)),
    }
}

/// Hands over chunks of text.
pub(crate) type VisitChunks<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>);

pub(crate) fn scan_text(
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    each: Visit<'_>,
    chunks: VisitChunks<'_>,
) -> u64 {
    let mut scanned = 0;
    let mut bound: Option<(Labels, BoundPlan)> = None;
    chunks(&mut |chunk| {
        if cancel.should_stop() {
            return ControlFlow::Break(());
        }
        if !request.overlaps(&chunk.rows) || !request.matches_stream(chunk.labels) {
            return ControlFlow::Continue(());
        }
        // Chunks of one stream often follow each other; settling the labels again for each would be waste.
        let fresh = match bound.take() {
            Some((labels, bound)) if labels == *chunk.labels => (labels, bound),
            _ => (chunk.labels.clone(), plan.bind(chunk.labels)),
        };
        let (_, bound) = bound.insert(fresh);
        if matches!(bound, BoundPlan::Nothing) {
            return ControlFlow::Continue(());
        }
        scanned += chunk.text.len() as u64;
        each(MatchChunk::Text(chunk, bound))
    });
    scanned
}
