//! Joins the lines of one chunk into events, and finds the place up to which the chunk is consumed.

use std::ops::Range;
use std::sync::Arc;

use bucksaw_protocols::AttributeList;
use bucksaw_protocols::container::OutputStream;
use bucksaw_record::{Flags, Millis};

use super::event::{LineEvent, LineEventSink};
use super::file_lines::SLOTS;
use super::multiline::Multiline;
use super::open_event::{LinePiece, OpenEvent};

/// Memory of an event beside its text, in bytes.
const EVENT_BYTES: usize = 96;

/// The events of one chunk.
#[derive(Debug)]
pub(super) struct EventJoiner {
    multiline: Multiline,
    record_bytes_max: usize,
    /// The offset of the chunk in the file.
    offset: u64,
    /// The open event of each stream, and of the lines without one.
    open: [OpenEvent; SLOTS],
    /// Complete events behind the start of an open one. The sink gets them in the order of their ends.
    held: Vec<HeldEvent>,
    held_text: Vec<u8>,
    /// Bytes that the held events will take in the batch.
    held_bytes: usize,
    /// The sink has every event before this offset in the chunk.
    cut: usize,
}

#[derive(Debug)]
struct HeldEvent {
    start: usize,
    end: usize,
    text: Range<usize>,
    time: Option<(Millis, u32)>,
    stream: Option<OutputStream>,
    attributes: Arc<AttributeList>,
    flags: u8,
    is_undecoded: bool,
}

fn slot_of(stream: Option<OutputStream>) -> usize {
    match stream {
        Some(OutputStream::Stdout) => 0,
        Some(OutputStream::Stderr) => 1,
        None => 2,
    }
}

impl EventJoiner {
    pub(super) fn new(multiline: Multiline, record_bytes_max: usize) -> Self {
        Self {
            multiline,
            record_bytes_max,
            offset: 0,
            open: std::array::from_fn(|_| OpenEvent::default()),
            held: Vec::new(),
            held_text: Vec::new(),
            held_bytes: 0,
            cut: 0,
        }
    }

    /// Begins a chunk.
    pub(super) fn start(&mut self, offset: u64) {
        self.offset = offset;
        self.cut = 0;
        self.open.iter_mut().for_each(OpenEvent::close);
        self.clear_held();
    }

    /// Bytes that the held events will take in the batch.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The open event of a slot.
    pub(super) fn open(&self, slot: usize) -> Option<&OpenEvent> {
        self.open.get(slot).filter(|open| open.is_open)
    }

    /// The slots with open events, in the order of their starts.
    pub(super) fn open_slots(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = (0..SLOTS).filter(|slot| self.open(*slot).is_some()).collect();
        slots.sort_by_key(|slot| self.open(*slot).map(|open| open.start));
        slots
    }

    /// Adds the next line, or part of one.
    pub(super) fn add(&mut self, piece: &LinePiece<'_>, sink: &mut impl LineEventSink) {
        let is_one_line = self.multiline.is_off() && !piece.is_partial;
        if is_one_line && self.held.is_empty() && self.open.iter().all(|open| !open.is_open) {
            let LinePiece { start, end, text, time, stream, attributes, flags, is_undecoded, .. } = *piece;
            let offset = self.offset + start as u64;
            sink.push(&LineEvent { offset, text, time, stream, attributes, flags, is_undecoded });
            self.cut = end;
            return;
        }
        let slot = slot_of(piece.stream);
        let Some(open) = self.open.get_mut(slot) else { return };
        if open.is_open {
            let continued = match open.is_partial {
                true => Some(open.trace),
                false => self.multiline.continued(open.trace, open.last_line(), piece.text),
            };
            match continued {
                Some(trace) if open.has_room(piece, self.record_bytes_max) => {
                    open.trace = trace;
                    open.append(piece);
                }
                _ => {
                    self.close(slot, if continued.is_some() { Flags::CUT } else { 0 }, sink);
                    self.begin(slot, piece);
                }
            }
        } else {
            self.begin(slot, piece);
        }
        if is_one_line {
            self.close(slot, 0, sink);
        }
    }

    fn begin(&mut self, slot: usize, piece: &LinePiece<'_>) {
        let trace = self.multiline.begin(piece.text);
        if let Some(open) = self.open.get_mut(slot) {
            open.begin(piece, trace);
        }
    }

    /// Completes the open event of a slot.
    pub(super) fn close(&mut self, slot: usize, flags: u8, sink: &mut impl LineEventSink) {
        let has_others = (0..SLOTS).any(|other| other != slot && self.open(other).is_some());
        let Some(open) = self.open.get_mut(slot).filter(|open| open.is_open) else { return };
        let flags = flags | open.flags;
        if has_others || !self.held.is_empty() {
            let text_at = self.held_text.len();
            self.held_text.extend_from_slice(&open.text);
            self.held_bytes += open.text.len() + EVENT_BYTES + sink.added_bytes(&open.attributes);
            self.held.push(HeldEvent {
                start: open.start,
                end: open.end,
                text: text_at..self.held_text.len(),
                time: open.time,
                stream: open.stream,
                attributes: Arc::clone(&open.attributes),
                flags,
                is_undecoded: open.is_undecoded,
            });
        } else {
            sink.push(&LineEvent {
                offset: self.offset + open.start as u64,
                text: &open.text,
                time: open.time,
                stream: open.stream,
                attributes: &open.attributes,
                flags,
                is_undecoded: open.is_undecoded,
            });
            self.cut = open.end;
        }
        open.close();
        if !has_others {
            self.emit(usize::MAX, sink);
        }
    }

    /// Gives the sink every event before the last place that no event crosses. `scanned` is the end of the lines that were added.
    /// Returns this place; if it is 0, nothing changes.
    pub(super) fn emit_before_cut(&mut self, scanned: usize, sink: &mut impl LineEventSink) -> usize {
        let Some(first_open) = self.open.iter().filter(|open| open.is_open).map(|open| open.start).min() else {
            self.cut = scanned;
            return scanned;
        };
        // An event of several lines is complete only when the next one begins.
        self.held.sort_by_key(|event| event.end);
        let mut cut = first_open;
        // An event that crosses the place moves it to its own start. One that ends later, and did not cross the old place, does not
        // cross the new one, as it starts behind the old one.
        for event in self.held.iter().rev() {
            if event.start < cut && cut < event.end {
                cut = event.start;
            }
        }
        if cut > self.cut {
            self.emit(cut, sink);
            self.cut = cut;
        }
        self.cut
    }

    /// Gives the sink the held events that start before an offset, and forgets the others.
    fn emit(&mut self, before: usize, sink: &mut impl LineEventSink) {
        self.held.sort_by_key(|event| event.end);
        for event in self.held.iter().filter(|event| event.start < before) {
            sink.push(&LineEvent {
                offset: self.offset + event.start as u64,
                text: self.held_text.get(event.text.clone()).unwrap_or_default(),
                time: event.time,
                stream: event.stream,
                attributes: &event.attributes,
                flags: event.flags,
                is_undecoded: event.is_undecoded,
            });
            self.cut = self.cut.max(event.end);
        }
        self.clear_held();
    }

    fn clear_held(&mut self) {
        self.held.clear();
        self.held_text.clear();
        self.held_bytes = 0;
    }
}
