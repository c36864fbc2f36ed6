//! Reads one file for one turn: checks that its former bytes are unchanged, and delivers what follows them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{File, Fs};

use crate::chunk::FileChunk;
use crate::config::TailerConfig;
use crate::content::{continues, open_regular};
use crate::fingerprint::{ANCHOR_BYTES_MAX, Fingerprint};
use crate::gaps::GapReason;
use crate::rotation_name::Compression;
use crate::tailed_file::{Stage, TailedFile, size_and_time};
use crate::unpacker::{Unpacker, is_read_error, unpacked_head};

/// The longest part of a compressed file that one turn skips.
const SKIP_BYTES: u64 = 8 << 20;

/// What a turn is given.
pub(crate) struct TurnContext<'a> {
    pub(crate) fs: &'a dyn Fs,
    pub(crate) config: &'a TailerConfig,
    pub(crate) now: Duration,
    /// Whether memory is left for incomplete lines.
    pub(crate) may_retain: bool,
}

/// What a turn found.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The file has more bytes.
    More,
    /// It was read to its end.
    CaughtUp,
    /// It has not grown for a while.
    Idle,
    /// Its former bytes have changed.
    Replaced,
    /// Another file has its name.
    Misplaced,
    /// The compressed file is not the rotated form of this file.
    Rejected,
    /// The compressed file begins like this file, and ends before what was read of it.
    Short,
    /// Its end was consumed.
    Ended,
    /// No more can be decompressed.
    Damaged(GapReason),
    /// It could not be opened.
    OpenFailed,
    /// It could not be read.
    ReadFailed,
    /// The sink failed.
    SinkFailed(io::Error),
}

/// The receiver of chunks. It returns how many bytes it has consumed.
pub(crate) type ChunkSink<'a> = dyn FnMut(&FileChunk<'_>) -> io::Result<usize> + 'a;

/// What is known about the text of a turn before it is delivered.
struct Delivery {
    length: usize,
    is_end: bool,
    has_more: bool,
    waited: Duration,
}

/// Runs the turn of a file. `buffer` is reused by all files.
pub(crate) fn take_turn(
    file: &mut TailedFile,
    context: &TurnContext<'_>,
    buffer: &mut Vec<u8>,
    sink: &mut ChunkSink<'_>,
) -> Turn {
    match file.stage {
        Stage::Lost | Stage::Replaced | Stage::Finished => Turn::Idle,
        Stage::Ending => {
            let length = place_pending(file, 0, buffer);
            let waited = context.now.saturating_sub(file.last_growth);
            deliver(file, context, buffer, Delivery { length, is_end: true, has_more: false, waited }, sink)
        }
        _ => match file.current_path.file_name().and_then(Compression::of) {
            Some(compression) => unpack(file, compression, context, buffer, sink),
            None => read_plain(file, context, buffer, sink),
        },
    }
}

/// Opens the file if it is not open; `Err` has the result of the turn.
fn open(file: &mut TailedFile, context: &TurnContext<'_>) -> Result<Arc<dyn File>, Turn> {
    if let Some(handle) = &file.handle {
        return Ok(Arc::clone(handle));
    }
    let (handle, stat) = open_regular(context.fs, &file.current_path).map_err(open_failed)?;
    if stat.identity != file.position.identity {
        return Err(Turn::Misplaced);
    }
    if !continues(&*handle, &file.position).map_err(|_| Turn::ReadFailed)? {
        return Err(Turn::Replaced);
    }
    file.handle = Some(Arc::clone(&handle));
    Ok(handle)
}

fn open_failed(error: io::Error) -> Turn {
    if error.kind() == io::ErrorKind::NotFound { Turn::Misplaced } else { Turn::OpenFailed }
}

fn read_plain(
    file: &mut TailedFile,
    context: &TurnContext<'_>,
    buffer: &mut Vec<u8>,
    sink: &mut ChunkSink<'_>,
) -> Turn {
    let handle = match open(file, context) {
        Ok(handle) => handle,
        Err(turn) => return turn,
    };
    let Ok(stat) = handle.stat() else { return Turn::ReadFailed };
    let end = file.read_end();
    if stat.size < file.position.size {
        return Turn::Replaced;
    }
    let waited = context.now.saturating_sub(file.last_growth);
    let is_unchanged = file.seen == Some(size_and_time(&stat)) && stat.size == end;
    if is_unchanged {
        let is_flush_due = file.waiting > 0 && !file.is_flushed && waited >= context.config.flush_after;
        let is_end_due = file.is_closing || file.stage == Stage::Rest;
        if !is_flush_due && !is_end_due {
            let is_idle = waited >= context.config.idle_after && (file.waiting == 0 || file.is_flushed);
            return if is_idle { Turn::Idle } else { Turn::CaughtUp };
        }
    }

    let before = file.bytes_before();
    let before = before.as_bytes();
    let room = room(file, context.config);
    let pending = place_pending(file, room, buffer);
    // The bytes before the new ones are read again in place, and compared.
    let from = ANCHOR_BYTES_MAX + pending - before.len();
    let target = buffer.get_mut(from..ANCHOR_BYTES_MAX + pending + room).unwrap_or_default();
    let Ok(read) = handle.read_at(file.next_offset() - before.len() as u64, target) else { return Turn::ReadFailed };
    if target.get(..before.len()).filter(|_| read >= before.len()) != Some(before) {
        return Turn::Replaced;
    }
    let length = pending + read - before.len();
    match file.grow_fingerprint(&*handle) {
        Ok(true) => {}
        Ok(false) => return Turn::Replaced,
        Err(_) => return Turn::ReadFailed,
    }
    let has_grown = file.position.offset + length as u64 > end;
    if has_grown {
        file.last_growth = context.now;
        file.is_flushed = false;
        file.is_closing = false;
    } else if waited >= context.config.flush_after {
        file.is_flushed = true;
    }
    file.is_failing = false;
    file.seen = Some(size_and_time(&stat));
    file.position.size = stat.size.max(file.position.offset + length as u64);
    file.growth.note(file.position.size, context.now);
    let has_more = file.position.offset + (length as u64) < stat.size;
    let is_end = !has_more && !has_grown && file.is_closing || !has_more && file.stage == Stage::Rest;
    let waited = if has_grown { Duration::ZERO } else { waited };
    deliver(file, context, buffer, Delivery { length, is_end, has_more, waited }, sink)
}

/// The number of bytes that may be read after the pending ones.
fn room(file: &TailedFile, config: &TailerConfig) -> usize {
    // Waiting bytes that are not in memory are read again.
    let again = usize::try_from(file.waiting).unwrap_or(usize::MAX).saturating_sub(file.pending.len());
    let wanted = config.read_bytes.max(1).saturating_add(again);
    wanted.min(config.pending_bytes_max.max(1).saturating_sub(file.pending.len()))
}

/// Puts the pending bytes into the buffer, behind space for an anchor and before `room` bytes. Returns their number.
fn place_pending(file: &TailedFile, room: usize, buffer: &mut Vec<u8>) -> usize {
    let pending = file.pending.len();
    let length = ANCHOR_BYTES_MAX + pending + room;
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    if let Some(target) = buffer.get_mut(ANCHOR_BYTES_MAX..ANCHOR_BYTES_MAX + pending) {
        target.copy_from_slice(&file.pending);
    }
    pending
}

/// Gives the text in the buffer to the sink, and moves the position.
fn deliver(
    file: &mut TailedFile,
    context: &TurnContext<'_>,
    buffer: &[u8],
    delivery: Delivery,
    sink: &mut ChunkSink<'_>,
) -> Turn {
    let Delivery { length, is_end, has_more, waited } = delivery;
    let next = if has_more { Turn::More } else { Turn::CaughtUp };
    let text = buffer.get(ANCHOR_BYTES_MAX..ANCHOR_BYTES_MAX + length).unwrap_or_default();
    if text.is_empty() && !is_end {
        return next;
    }
    let chunk = FileChunk {
        key: file.position.key,
        path: &file.position.path,
        text,
        is_end,
        is_full: length >= context.config.pending_bytes_max,
        waited,
        position: &file.position,
    };
    let consumed = match sink(&chunk) {
        Ok(consumed) => consumed.min(length),
        Err(error) => {
            // An incomplete line that has waited is delivered once more, until the sink has seen it.
            file.is_flushed = false;
            // A decoder does not go back, so what it gave is kept.
            if file.unpacker.is_some() {
                file.waiting = text.len() as u64;
                file.pending.clear();
                file.pending.extend_from_slice(text);
            }
            return Turn::SinkFailed(error);
        }
    };
    let (consumed_text, rest) = text.split_at(consumed);
    let was_full = length >= context.config.pending_bytes_max;
    file.consume(consumed_text);
    file.waiting = rest.len() as u64;
    // A decoder does not go back, so what it gave is always kept.
    let is_kept = context.may_retain || file.unpacker.is_some() || file.stage == Stage::Ending;
    file.pending.clear();
    if is_kept {
        file.pending.extend_from_slice(rest);
    }
    if file.pending.is_empty() {
        file.pending = Vec::new();
    }
    if is_end && rest.is_empty() {
        return Turn::Ended;
    }
    // Nothing more fits in, so that another turn at once is in vain.
    if was_full && consumed == 0 { Turn::CaughtUp } else { next }
}

fn unpack(
    file: &mut TailedFile,
    compression: Compression,
    context: &TurnContext<'_>,
    buffer: &mut Vec<u8>,
    sink: &mut ChunkSink<'_>,
) -> Turn {
    let start = file.next_offset();
    if file.unpacker.is_none() {
        let (handle, stat) = match open_regular(context.fs, &file.current_path) {
            Ok(opened) => opened,
            Err(error) => return open_failed(error),
        };
        if stat.identity != file.position.identity {
            return Turn::Misplaced;
        }
        file.seen = Some(size_and_time(&stat));
        // The number may have been given to another file meanwhile.
        match unpacked_head(Arc::clone(&handle), compression) {
            Ok(head) if file.position.fingerprint.matches(&head) => {}
            Ok(_) => return Turn::Misplaced,
            Err(error) => return decode_failed(file, context, &error),
        }
        match Unpacker::open(handle, compression) {
            Ok(unpacker) => file.unpacker = Some(unpacker),
            Err(error) => return decode_failed(file, context, &error),
        }
    }
    match skip(file, start, buffer) {
        Ok(Some(turn)) => return turn,
        Ok(None) => {}
        Err(error) => return decode_failed(file, context, &error),
    }
    if start >= context.config.unpacked_bytes_max {
        return Turn::Damaged(GapReason::TooLong);
    }
    let room = room(file, context.config);
    let pending = place_pending(file, room, buffer);
    let target = buffer.get_mut(ANCHOR_BYTES_MAX + pending..ANCHOR_BYTES_MAX + pending + room).unwrap_or_default();
    let Some(unpacker) = &mut file.unpacker else { return Turn::ReadFailed };
    let read = match unpacker.read(target) {
        Ok(read) => read,
        Err(error) => return decode_failed(file, context, &error),
    };
    if file.position.fingerprint.length() < unpacker.head().len() {
        file.position.fingerprint = Fingerprint::of(unpacker.head());
    }
    file.is_failing = false;
    file.damage_seen = None;
    let length = pending + read;
    let end = file.position.offset + length as u64;
    file.position.size = file.position.size.max(end);
    file.growth.note(file.position.size, context.now);
    // The decoder reports the end of the text by reading nothing.
    let is_end = read == 0 && room > 0;
    deliver(file, context, buffer, Delivery { length, is_end, has_more: !is_end, waited: Duration::ZERO }, sink)
}

/// Skips a part of the text up to `start` and compares it with what is remembered. Returns the result of the turn unless `start`
/// is reached.
fn skip(file: &mut TailedFile, start: u64, buffer: &mut Vec<u8>) -> io::Result<Option<Turn>> {
    let before = file.bytes_before();
    let Some(unpacker) = &mut file.unpacker else { return Ok(Some(Turn::ReadFailed)) };
    if unpacker.position() >= start {
        return Ok(None);
    }
    let stop = start.min(unpacker.position() + SKIP_BYTES);
    if buffer.len() < INPUT_STEP {
        buffer.resize(INPUT_STEP, 0);
    }
    while unpacker.position() < stop {
        let step = usize::try_from(stop - unpacker.position()).unwrap_or(INPUT_STEP).min(buffer.len());
        if unpacker.read(buffer.get_mut(..step).unwrap_or_default())? == 0 {
            return Ok(Some(Turn::Short));
        }
    }
    if stop < start {
        return Ok(Some(Turn::More));
    }
    let is_same =
        file.position.fingerprint.matches(unpacker.head()) && unpacker.tail().as_bytes().ends_with(before.as_bytes());
    // The fingerprint may cover bytes after the offset.
    let is_same = is_same || {
        let known = file.position.fingerprint.length() > unpacker.head().len();
        known && unpacker.tail().as_bytes().ends_with(before.as_bytes())
    };
    Ok((!is_same).then_some(Turn::Rejected))
}

/// The bytes that are skipped at once at least.
const INPUT_STEP: usize = 64 << 10;

/// A file may still be written, so it is damaged only if it has not changed since the last failure.
fn decode_failed(file: &mut TailedFile, context: &TurnContext<'_>, error: &io::Error) -> Turn {
    file.unpacker = None;
    if is_read_error(error) {
        return Turn::ReadFailed;
    }
    let Ok(stat) = context.fs.stat(&file.current_path) else { return Turn::OpenFailed };
    let state = size_and_time(&stat);
    if file.damage_seen.replace(state) == Some(state) { Turn::Damaged(GapReason::Damaged) } else { Turn::ReadFailed }
}
