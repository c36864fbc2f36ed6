//! Scanning text: which chunks may hold matches, and how a scan passes them to its visitor.

use std::ops::ControlFlow;

use bucksaw_record::Labels;
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::Chunk;

use crate::column_records::ColumnRecords;
use crate::request::{Cancel, Request};

/// Records of one stream, as a scan passes them to its visitor.
pub(crate) enum MatchChunk<'a> {
    /// Text with candidates; the plan finds the matches.
    Text(&'a Chunk<'a>, &'a mut BoundPlan),
    /// Lines of columns, all of which match.
    Columns(&'a ColumnRecords<'a>),
}

/// What the visitor of a scan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanContent {
    /// Records with their text.
    Records,
    /// Their ids and streams: every record matches, so its text decides nothing.
    IdsAndStreams,
    /// Their ids: every record of every stream matches, and is counted alike.
    Ids,
}

/// The visitor of a scan; `Break` ends the scan.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(MatchChunk<'_>) -> ControlFlow<()>;

/// Passes all chunks of a unit to a visitor.
pub(crate) type VisitChunks<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>);

/// Passes chunks that may hold matches, with the plan bound to their stream. Returns the bytes of text scanned.
pub(crate) fn scan_text(
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    visit: Visit<'_>,
    chunks: VisitChunks<'_>,
) -> u64 {
    let mut scanned = 0;
    let mut bound: Option<(Labels, BoundPlan)> = None;
    chunks(&mut |chunk| {
        if cancel.should_stop() {
            return ControlFlow::Break(());
        }
        if !request.wants(chunk.labels, &chunk.rows) {
            return ControlFlow::Continue(());
        }
        // Adjacent chunks are often of one stream, so the last bound plan is kept.
        let fresh = match bound.take() {
            Some((labels, bound)) if labels == *chunk.labels => (labels, bound),
            _ => (chunk.labels.clone(), plan.bind(chunk.labels)),
        };
        let (_, bound) = bound.insert(fresh);
        if matches!(bound, BoundPlan::Nothing) {
            return ControlFlow::Continue(());
        }
        scanned += chunk.text.len() as u64;
        visit(MatchChunk::Text(chunk, bound))
    });
    scanned
}
