//! An event whose end was not seen yet.

use std::sync::Arc;

use bucksaw_protocols::AttributeList;
use bucksaw_protocols::container::OutputStream;
use bucksaw_record::Millis;

use super::stack_trace::TraceState;

/// A line, or a part of one, as the format of the file gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePiece<'a> {
    /// The offsets in the chunk of what it was written as.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: &'a [u8],
    pub(super) time: Option<(Millis, u32)>,
    pub(super) stream: Option<OutputStream>,
    pub(super) is_partial: bool,
    pub(super) attributes: &'a Arc<AttributeList>,
    pub(super) flags: u8,
    pub(super) is_undecoded: bool,
}

/// An event that is incomplete, or may have more lines. Its memory is kept for the next one.
#[derive(Debug, Default)]
pub(super) struct OpenEvent {
    pub(super) is_open: bool,
    /// The offsets in the chunk of its first and behind its last piece.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: Vec<u8>,
    pub(super) time: Option<(Millis, u32)>,
    pub(super) stream: Option<OutputStream>,
    pub(super) attributes: Arc<AttributeList>,
    pub(super) flags: u8,
    pub(super) is_undecoded: bool,
    /// Whether the next piece continues the last line.
    pub(super) is_partial: bool,
    pub(super) trace: TraceState,
    /// Where the last line begins in the text.
    line_at: usize,
}

/// The greatest buffer that is kept, in bytes.
const KEPT_BYTES: usize = 64 << 10;

impl OpenEvent {
    pub(super) fn begin(&mut self, piece: &LinePiece<'_>, trace: TraceState) {
        let LinePiece { start, end, text, time, stream, is_partial, attributes, flags, is_undecoded } = *piece;
        self.text.clear();
        self.text.extend_from_slice(text);
        (self.start, self.end, self.line_at) = (start, end, 0);
        (self.time, self.stream, self.flags, self.is_undecoded) = (time, stream, flags, is_undecoded);
        (self.is_open, self.is_partial, self.trace) = (true, is_partial, trace);
        if !Arc::ptr_eq(&self.attributes, attributes) {
            self.attributes = Arc::clone(attributes);
        }
    }

    pub(super) fn append(&mut self, piece: &LinePiece<'_>) {
        if !self.is_partial {
            self.text.push(b'\n');
            self.line_at = self.text.len();
        }
        self.text.extend_from_slice(piece.text);
        self.end = piece.end;
        self.is_partial = piece.is_partial;
        self.flags |= piece.flags;
    }

    /// Whether a piece fits into the greatest record.
    pub(super) fn has_room(&self, piece: &LinePiece<'_>, record_bytes_max: usize) -> bool {
        self.text.len() + 1 + piece.text.len() <= record_bytes_max
    }

    pub(super) fn last_line(&self) -> &[u8] {
        self.text.get(self.line_at..).unwrap_or_default()
    }

    pub(super) fn close(&mut self) {
        self.is_open = false;
        if self.text.capacity() > KEPT_BYTES {
            self.text = Vec::new();
        }
    }
}
