//! Units of work: what one scan job searches, a queue segment or a block of a stored segment.

use std::ops::ControlFlow;

use bucksaw_ingest::SegmentView;
use bucksaw_record::Id;
use bucksaw_scan::Plan;
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::{Chunk, ReadError, RecordSummary};

use crate::block::BlockUnit;
use crate::request::{Cancel, Request};
use crate::text_scan::{Visit, scan_text};

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
