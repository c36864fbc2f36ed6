//! Reads the whole events of a chunk.
//!
//! Each stream of a container has at most one open event: one whose next line may still belong to it. A chunk is consumed up to
//! the last place that no event crosses, complete or open. What is behind it is delivered again and read again.
//!
//! ```text
//!   stdout  ├─A─┤   ├──C──┤  ├─E (open)──
//!   stderr     ├─B─┤  ├─D─┤
//!                  consumed ▲             A, B, C and D are records; E waits
//! ```
//! - While no event is open, each line goes straight to the batch. Otherwise complete events are held until no event is open, or
//!   until the end of the chunk.
//! - An open event waits for [`ChunkText::wait`]. Then, or at the end of the file, it becomes a record as it is. If the chunk is
//!   full and nothing of it can be consumed, all open events do.
//! - A long text without a whole event is read again only when it has grown by a quarter, so all readings together take time in
//!   proportion to its length.

use std::time::Duration;

use bucksaw_record::Flags;
use memchr::memchr;

use super::event::LineEventSink;
use super::event_joiner::EventJoiner;
use super::file_lines::{FileLines, NextScan, SLOTS, WaitingEvent};
use super::line_decoder::LineDecoder;
use super::multiline::Multiline;

/// Bytes of a text without a whole event from which it is not read again each time that it grows.
const RESCAN_BYTES: usize = 64 << 10;

/// A chunk of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkText<'a> {
    pub(crate) text: &'a [u8],
    /// The offset of the text in the file.
    pub(crate) offset: u64,
    /// Whether the file ends with the text.
    pub(crate) is_end: bool,
    /// Whether a part of the text must be consumed.
    pub(crate) is_full: bool,
    /// For how long the text has not grown.
    pub(crate) waited: Duration,
    /// For how long an incomplete event waits.
    pub(crate) wait: Duration,
    /// The uptime.
    pub(crate) now: Duration,
}

/// What was read of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadEvents {
    /// Bytes of the events that the sink has got.
    pub(crate) consumed: usize,
    /// Whether the sink was full before all whole lines were read.
    pub(crate) is_cut_short: bool,
}

/// Reads chunks of any number of files.
#[derive(Debug)]
pub(crate) struct EventReader {
    decoder: LineDecoder,
    joiner: EventJoiner,
}

impl EventReader {
    /// A reader of events. An event of several lines has at most `record_bytes_max` bytes.
    pub(crate) fn new(multiline: Multiline, record_bytes_max: usize) -> Self {
        Self { decoder: LineDecoder::default(), joiner: EventJoiner::new(multiline, record_bytes_max) }
    }

    /// Gives the whole events of a chunk to the sink, which is empty.
    pub(crate) fn read(
        &mut self,
        file: &mut FileLines,
        chunk: ChunkText<'_>,
        sink: &mut impl LineEventSink,
    ) -> ReadEvents {
        if is_too_early(file, &chunk) {
            return ReadEvents::default();
        }
        let Self { decoder, joiner } = self;
        joiner.start(chunk.offset);
        let (mut at, mut is_cut_short) = (0, false);
        while let Some(rest) = chunk.text.get(at..)
            && let Some(length) = memchr(b'\n', rest)
        {
            if joiner.held_bytes() >= sink.room() {
                is_cut_short = true;
                break;
            }
            let next = at + length + 1;
            joiner.add(&decoder.piece(file.format, rest.get(..length).unwrap_or_default(), at..next, 0), sink);
            at = next;
        }
        let rest = chunk.text.get(at..).unwrap_or_default();
        if chunk.is_end && !is_cut_short && !rest.is_empty() {
            joiner.add(&decoder.piece(file.format, rest, at..chunk.text.len(), Flags::UNTERMINATED), sink);
            at = chunk.text.len();
        }
        if !is_cut_short {
            close_due(joiner, file, &chunk, sink);
        }
        let mut consumed = joiner.emit_before_cut(at, sink);
        if consumed == 0 && (is_cut_short || chunk.is_full) {
            for slot in joiner.open_slots() {
                joiner.close(slot, Flags::CUT, sink);
            }
            consumed = joiner.emit_before_cut(at, sink);
        }
        if consumed == 0 && chunk.is_full {
            // One line without an end.
            let whole = decoder.piece(None, chunk.text, 0..chunk.text.len(), Flags::CUT);
            joiner.add(&whole, sink);
            for slot in joiner.open_slots() {
                joiner.close(slot, 0, sink);
            }
            consumed = joiner.emit_before_cut(chunk.text.len(), sink);
        }
        remember(joiner, file, &chunk, consumed);
        ReadEvents { consumed, is_cut_short }
    }
}

/// Completes the open events that have waited for long enough.
fn close_due(joiner: &mut EventJoiner, file: &FileLines, chunk: &ChunkText<'_>, sink: &mut impl LineEventSink) {
    for slot in joiner.open_slots() {
        let Some(open) = joiner.open(slot) else { continue };
        let (start, end) = (chunk.offset + open.start as u64, chunk.offset + open.end as u64);
        let waiting = file.waiting.get(slot).copied().flatten();
        let waited = waiting.filter(|waiting| (waiting.start, waiting.end) == (start, end));
        let waited = waited.map_or(chunk.waited, |waiting| chunk.waited.max(chunk.now.saturating_sub(waiting.since)));
        if chunk.is_end || waited >= chunk.wait {
            let flags = match (open.is_partial, chunk.is_end) {
                (false, _) => 0,
                (true, true) => Flags::UNTERMINATED,
                // Its rest may follow.
                (true, false) => Flags::CUT,
            };
            joiner.close(slot, flags, sink);
        }
    }
}

/// Whether a long text has hardly grown since it had no whole event.
fn is_too_early(file: &FileLines, chunk: &ChunkText<'_>) -> bool {
    let is_forced = chunk.is_end || chunk.is_full || chunk.waited >= chunk.wait;
    let is_early = |next: NextScan| {
        chunk.offset == next.offset && chunk.text.len() < next.length && chunk.now < next.due && !is_forced
    };
    file.next_scan.is_some_and(is_early)
}

fn remember(joiner: &EventJoiner, file: &mut FileLines, chunk: &ChunkText<'_>, consumed: usize) {
    let mut due = chunk.now + chunk.wait;
    for slot in 0..SLOTS {
        let Some(waiting) = file.waiting.get_mut(slot) else { continue };
        let before = *waiting;
        *waiting = joiner.open(slot).map(|open| {
            let (start, end) = (chunk.offset + open.start as u64, chunk.offset + open.end as u64);
            let same = before.filter(|waiting| (waiting.start, waiting.end) == (start, end));
            same.unwrap_or(WaitingEvent { start, end, since: chunk.now })
        });
        due = due.min(waiting.map_or(due, |waiting| waiting.since + chunk.wait));
    }
    let length = chunk.text.len();
    let is_long = consumed == 0 && length > RESCAN_BYTES;
    file.next_scan = is_long.then(|| NextScan { offset: chunk.offset, length: length + length / 4, due });
}

#[cfg(test)]
mod tests;
