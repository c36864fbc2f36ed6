//! Units: what one scan job searches, a queue segment, a block of a stored segment, or a range of a database.

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_env::file_name;
use bucksaw_ingest::SegmentView;
use bucksaw_record::Id;
use bucksaw_scan::Plan;
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::{Chunk, ReadError, RecordSummary};
use bucksaw_store::RecordRange;
use bucksaw_store::erasure::ErasureSet;

use crate::block::BlockUnit;
use crate::range_scan;
use crate::request::{Cancel, Request};
use crate::text_scan::{ScanContent, Visit, scan_text};

/// Bytes that are read of a queue segment at once, except for a longer frame.
const READ_BYTES: u64 = 512 << 10;

/// Bytes of the longest usual frame: a section of an HTTP body that ends with a record of maximum length.
const FRAME_BYTES_MAX: u64 = 9 << 18;

/// What one scan job searches.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    Queue(Box<SegmentView>),
    Block(BlockUnit),
    Range(Arc<dyn RecordRange>),
}

impl Unit {
    pub(crate) fn summary(&self) -> Option<&RecordSummary> {
        match self {
            Self::Queue(view) => Some(&view.reach),
            Self::Block(unit) => unit.summary(),
            Self::Range(range) => Some(range.summary()),
        }
    }

    pub(crate) fn low(&self) -> Id {
        self.summary().map_or(Id::MAX, |summary| summary.low)
    }

    pub(crate) fn high(&self) -> Id {
        self.summary().map_or(Id::MIN, |summary| summary.high)
    }

    pub(crate) fn text_bytes(&self) -> u64 {
        self.summary().map_or(0, |summary| summary.text_bytes)
    }

    /// Approximate memory of a scan, in bytes: the bytes read and decoded.
    pub(crate) fn scan_bytes(&self) -> u64 {
        match self {
            // A window of the file that holds the longest frame, and the row metadata.
            Self::Queue(view) => {
                let window = (view.reach.text_bytes + READ_BYTES / 8).min(FRAME_BYTES_MAX);
                window + window / 2
            }
            Self::Block(unit) => unit.scan_bytes(),
            Self::Range(range) => range.scan_bytes(),
        }
    }

    /// Whether it is known, without reading anything, that no record matches.
    pub(crate) fn is_known_to_match_nothing(&self, request: &Request, plan: &Plan) -> bool {
        match self {
            Self::Block(unit) => unit.is_known_to_match_nothing(request, plan),
            Self::Queue(_) | Self::Range(_) => false,
        }
    }

    /// Passes chunks that may hold matches to `visit`, with the plan bound to their stream; of a columnar block, passes
    /// the matching lines, at most `limit` per stream, from the start of the answer. Of a range, passes chunks in the order
    /// of the answer. Adds the names of damaged parts to `damaged` and returns the bytes of text scanned.
    pub(crate) fn scan(
        &self,
        request: &Request,
        plan: &Plan,
        cancel: &Cancel,
        (limit, content): (usize, ScanContent),
        damaged: &mut Vec<String>,
        visit: Visit<'_>,
    ) -> u64 {
        match self {
            Self::Block(unit) => unit.scan(request, plan, cancel, limit, visit).unwrap_or_else(|error| {
                damaged.push(damage_name(&error, unit.block.source.name()));
                0
            }),
            Self::Range(range) => {
                let read = range_scan::scan(&**range, request, plan, cancel, (limit, content), visit);
                read.unwrap_or_else(|error| {
                    damaged.push(error.0);
                    0
                })
            }
            Self::Queue(view) => scan_text(request, plan, cancel, visit, &mut |visit| {
                visit_frames(view, HEADER_LEN as u64, &request.erasures, visit, &mut |error| {
                    view.report_unreadable();
                    damaged.push(damage_name(&error, file_name(view.path())));
                });
            }),
        }
    }
}

/// Passes the chunks of a queue segment, from the byte `from` on and without what is erased, to `visit` until it breaks.
/// Returns the offset of the next frame.
///
/// After damage an undamaged frame cannot be found, except in a segment whose frames were salvaged.
pub(crate) fn visit_frames(
    view: &SegmentView,
    from: u64,
    erasures: &ErasureSet,
    visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    on_damage: &mut dyn FnMut(ReadError),
) -> u64 {
    let visit = &mut |chunk: &Chunk<'_>| visit_retained(chunk, erasures, visit);
    let mut frames = view.frames(from);
    if let Some(salvaged) = view.salvaged_frames() {
        for frame in salvaged.iter().filter(|frame| frame.offset >= from) {
            frames.seek(frame.offset);
            match frames.next_chunk() {
                Ok(Some(chunk)) if visit(&chunk).is_break() => return frames.offset(),
                Ok(_) => {}
                Err(error) => on_damage(error),
            }
        }
        return view.end;
    }
    loop {
        match frames.next_chunk() {
            Ok(Some(chunk)) if visit(&chunk).is_continue() => {}
            Ok(Some(_)) => return frames.offset(),
            Ok(None) => return view.end,
            Err(error) => {
                on_damage(error);
                return view.end;
            }
        }
    }
}

/// Passes what an erasure has left of a chunk to `visit`.
pub(crate) fn visit_retained(
    chunk: &Chunk<'_>,
    erasures: &ErasureSet,
    visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match if erasures.is_empty() { None } else { erasures.retained(chunk) } {
        None => visit(chunk),
        Some(retained) => retained.chunk(chunk.labels).map_or(ControlFlow::Continue(()), |chunk| visit(&chunk)),
    }
}

/// The name of a damaged part of a file.
pub(crate) fn damage_name(error: &ReadError, file: String) -> String {
    match error {
        ReadError::Damaged { damage, .. } => format!("{file} at byte {}", damage.offset),
        _ => file,
    }
}
