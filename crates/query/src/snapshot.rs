//! The snapshot of a query: which units may hold its records, and what is missing from them.

use std::collections::HashSet;
use std::sync::Arc;

use bucksaw_ingest::SegmentState;
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::RecordSummary;
use bucksaw_store::BlockSelector;

use crate::block::BlockUnit;
use crate::engine::Engine;
use crate::request::Request;
use crate::stats::{QueryStats, TrashStats};
use crate::unit::Unit;

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

/// Whether records may be of the request's time and not past their retention, which keeps everything newer than `since`.
fn may_contain(request: &Request, since: Option<Millis>, reach: &RecordSummary) -> bool {
    let is_kept = since.is_none_or(|since| reach.newest() >= since);
    is_kept && request.from < request.to && reach.low < request.to && request.from <= reach.high
}

fn may_match(request: &Request, plan: &Plan, labels: &Labels) -> bool {
    request.matches_stream(labels) && !matches!(plan.bind(labels), BoundPlan::Nothing)
}
