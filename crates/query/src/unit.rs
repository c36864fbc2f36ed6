//! Units of work: a queue segment, or a block of a store segment. Which there are, which can be left out, and how one is
//! read.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_ingest::{SegmentState, SegmentView};
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::{Chunk, ReadError, RecordSummary};
use bucksaw_store::BlockSelector;

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
            Self::Block(BlockUnit { block, .. }) => match block.source.open_text(block.index) {
                Ok(read) => {
                    let _ = read.chunks().try_for_each(|chunk| each(&chunk));
                }
                Err(error) => damaged.push(damage_name(&error, block.source.name())),
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
                    damaged.push(damage_name(&error, file_name(view.path())));
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
                return damaged.push(damage_name(&error, file_name(view.path())));
            }
        }
    }
}

fn damage_name(error: &ReadError, file: String) -> String {
    match error {
        ReadError::Damaged { damage, .. } => format!("{file} at byte {}", damage.offset),
        _ => file,
    }
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The units that may contain records of the request. Adds to the stats how much is read and skipped, and what is damaged.
pub(crate) fn units(engine: &Engine, request: &Request, plan: &Plan, stats: &mut QueryStats) -> Vec<Unit> {
    let (queue, store) = (&engine.queue, &engine.store);
    // The queue is listed before the store. So a batch that moves meanwhile is seen in both, and the sources of the stored
    // segments remove it here; in the other order it could be seen in neither. Committed segments are listed too: another
    // node's store may have answered before it had them.
    let mut queued = queue.readable_segments();
    let since = store.answers_since();
    let wants = |reach: &RecordSummary| may_contain(request, since, reach);
    let matches = |labels: &Labels| may_match(request, plan, labels);
    queued.retain(|segment| {
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
    let times = (request.from.time(), request.to.time());
    let mut not_stored: HashSet<Id> = queued.iter().map(|segment| segment.id()).collect();
    let filter = BlockSelector { may_contain: &wants, may_match: &matches, times };
    let selection = store.select(&filter, &mut not_stored);
    let mut units = Vec::new();
    for segment in queued.iter().filter(|segment| not_stored.contains(&segment.id())) {
        let view = segment.view();
        if view.streams().iter().any(&matches) {
            stats.segments_read += 1;
            units.push(Unit::Queue(Box::new(view)));
        } else {
            stats.bytes_skipped += view.reach.text_bytes;
            stats.segments_skipped += 1;
        }
    }
    let block_unit = |block| Unit::Block(BlockUnit { block, block_cache: Arc::clone(&engine.block_cache) });
    units.extend(selection.blocks.into_iter().map(block_unit));
    stats.segments_read += selection.segments_read;
    stats.segments_skipped += selection.segments_skipped;
    stats.bytes_skipped += selection.bytes_skipped;
    let (first, last) = times;
    let damaged = queue.damaged_files().into_iter().filter(|file| file.low <= last && first <= file.high);
    stats.damaged.extend(damaged.map(|file| file.name));
    stats.damaged.extend(selection.damaged);
    stats.trashed.add(TrashStats { segments: selection.trashed_segments, records: selection.trashed_records });
    units
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
                damaged.push(damage_name(&error, block.block.source.name()));
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
