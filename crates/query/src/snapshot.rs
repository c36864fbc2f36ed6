//! The snapshot of a query: the units that may hold its records, and the damaged files.

use std::collections::HashSet;
use std::sync::Arc;

use bucksaw_ingest::SegmentState;
use bucksaw_record::{Id, Labels};
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::RecordSummary;
use bucksaw_store::{BlockSelector, Selection, StreamRetention};

use crate::block::BlockUnit;
use crate::engine::Engine;
use crate::request::Request;
use crate::stats::{QueryStats, TrashStats, UNREADABLE};
use crate::unit::Unit;

/// Units up to which a query tests the skip filters that are cached before it starts scans. A job of the pool costs more than some
/// tests; the tests of many units are divided over the threads of the pool.
pub(crate) const TESTED_UNITS_MAX: usize = 256;

/// The request, with the retention and the erasures of the store as of now. Every search has them before its [`units`].
pub(crate) fn with_retention(engine: &Engine, request: Request) -> Request {
    Request { retention: Some(Arc::new(engine.store.retention())), erasures: engine.store.erasures(), ..request }
}

/// The units that may contain records of the request. Adds the amounts read and skipped and the damaged files to
/// `stats`.
pub(crate) fn units(engine: &Engine, request: &Request, plan: &Plan, stats: &mut QueryStats) -> Vec<Unit> {
    let (queue, store) = (&engine.queue, &engine.store);
    // The queue is listed before the store. A batch that moves in between is in both lists, and is dropped here because
    // the stored segment names its origin. In the other order it could be in neither list. Committed segments are
    // listed too: another node's store may have answered before it had them.
    let is_queue_read = request.share.as_ref().is_none_or(|share| share.only.is_none());
    let mut queued = if is_queue_read { queue.readable_segments() } else { Vec::new() };
    let retention = request.retention.clone().unwrap_or_default();
    let may_contain = |summary: &RecordSummary| may_contain(request, &retention, summary);
    let may_match = |labels: &Labels| may_match(request, plan, labels);
    queued.retain(|segment| {
        let check = |state, summary: &RecordSummary| {
            let may_contain = may_contain(summary);
            if !may_contain && state != SegmentState::Committed {
                stats.bytes_skipped += summary.text_bytes;
                stats.segments_skipped += 1;
            }
            may_contain
        };
        segment.with_summary(check).unwrap_or_default()
    });
    let times = (request.from.time(), request.to.time());
    let mut not_stored: HashSet<Id> = queued.iter().map(|segment| segment.id()).collect();
    let selector = BlockSelector {
        may_contain: &may_contain,
        may_match: &may_match,
        retention: &retention,
        times,
        ids: (request.from, request.to),
        expr: &request.expr,
        stream: request.stream.as_ref(),
        scope: request.scope.as_ref(),
        share: request.share.as_deref(),
    };
    let selection = if request.queue_only { Selection::default() } else { store.select(&selector, &mut not_stored) };
    let mut units = Vec::new();
    for segment in queued.iter().filter(|segment| not_stored.contains(&segment.id())) {
        let view = segment.view();
        if view.streams().iter().any(&may_match) {
            stats.segments_read += 1;
            units.push(Unit::Queue(Box::new(view)));
        } else {
            stats.bytes_skipped += view.reach.text_bytes;
            stats.segments_skipped += 1;
        }
    }
    let block_unit = |block| BlockUnit { block, block_cache: Arc::clone(&engine.block_cache) };
    units.extend(selection.blocks.into_iter().map(block_unit).map(Unit::Block));
    units.extend(selection.ranges.into_iter().map(Unit::Range));
    stats.share = selection.share;
    stats.segments_read += selection.segments_read;
    stats.segments_skipped += selection.segments_skipped;
    stats.bytes_skipped += selection.bytes_skipped;
    let (first, last) = times;
    let damaged = queue.damaged_files().into_iter().filter(|file| file.low <= last && first <= file.high);
    stats.damaged.extend(damaged.map(|file| file.name));
    stats.damaged.extend(selection.damaged);
    let keyless = selection.keyless.into_iter();
    stats
        .damaged
        .extend(keyless.map(|file| format!("{}{UNREADABLE}its encryption key {} is not known", file.name, file.key)));
    stats.trashed.add(TrashStats { segments: selection.trashed_segments, records: selection.trashed_records });
    units
}

/// Whether some records may be in the requested time range and within retention.
fn may_contain(request: &Request, retention: &StreamRetention, summary: &RecordSummary) -> bool {
    retention.may_be_retained(summary.newest())
        && request.from < request.to
        && summary.low < request.to
        && request.from <= summary.high
}

fn may_match(request: &Request, plan: &Plan, labels: &Labels) -> bool {
    request.matches_stream(labels) && !matches!(plan.bind(labels), BoundPlan::Nothing)
}
