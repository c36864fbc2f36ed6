//! What a queue segment holds, when there is no writer to ask: after a crash, and for `bucksaw verify`.
//!
//! Every whole frame counts. Bytes before a whole frame, or before the seal, that are none were damaged; bytes behind the
//! last whole frame of a file without a seal are its [`Tail`]: a write that a crash has torn, or damage. Nothing here
//! knows how the last run ended, so the caller decides what a tail or a missing seal means.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use super::frame_reader::error_text;
use super::{FrameReader, HEADER_LEN, Seal};
use crate::{Damage, FrameError, FrameHeader, FrameKind, ReadError, RecordSummary};

/// Where a record frame lies, and which ids it spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePosition {
    /// Offset in the file.
    pub offset: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The id in the header: producer and sequence of the first record, and the time of the batch.
    pub first_id: Id,
    /// The lowest id.
    pub low: Id,
    /// The highest id.
    pub high: Id,
}

/// What stands behind the last whole frame of a file without a seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SegmentTail {
    /// Nothing.
    #[default]
    Clean,
    /// The beginning of a frame: what a process leaves that is killed while it writes.
    Torn,
    /// Bytes that are no beginning of a frame. A power cut can leave them, a killed process cannot.
    Damaged(Damage),
}

/// The whole frames of a file.
#[derive(Clone, Debug, Default)]
pub struct SegmentScan {
    /// The record frames, in file order.
    pub positions: Vec<FramePosition>,
    /// The streams by number.
    pub streams: Vec<Labels>,
    /// All records.
    pub summary: RecordSummary,
    /// Where the last whole frame ends.
    pub end: u64,
    /// The seal, if the file was closed and its seal is sound.
    pub seal: Option<Seal>,
    /// What stands behind the last whole frame; of a sealed file, always nothing.
    pub tail: SegmentTail,
    /// Bytes of the tail.
    pub tail_bytes: u64,
    /// Places at which records are missing.
    pub damage: Vec<Damage>,
    /// Places that are damaged and of which nothing is missing: the file says the same elsewhere.
    pub harmless: Vec<Damage>,
}

impl SegmentScan {
    /// Number of records that the seal tells of and that were not found; `None` without a seal.
    #[must_use]
    pub fn missing_records(&self) -> Option<u64> {
        self.seal.as_ref().map(|seal| seal.records.saturating_sub(self.summary.records))
    }
}

/// Reads the whole file of the segment `id` with all checks, and looks for whole frames behind broken ones.
///
/// # Errors
/// [`ReadError`] when the file is shorter than its header, belongs to another segment or a newer version, or the operating
/// system cannot read it.
pub fn scan_segment(file: &Arc<dyn File>, path: &Path, id: Id) -> Result<SegmentScan, ReadError> {
    let size = file.size().map_err(ReadError::io(path))?;
    let mut harmless = Vec::new();
    match super::read_header(&**file, path) {
        Ok(own) if own != id => {
            return Err(ReadError::damaged(path, 16, "the id in the header is not the one in the file's name"));
        }
        // The header says nothing that the file's name does not; the frames tell whether the file is that segment's.
        Err(ReadError::Damaged { damage, .. }) if size >= HEADER_LEN as u64 => harmless.push(damage),
        other => drop(other?),
    }
    let seal = Seal::find(&**file, path, id, size)?;
    let (end, streams) = seal.as_ref().map_or((size, Vec::new()), |seal| (seal.offset, seal.streams.clone()));
    let mut scan = scan_frames(file, path, id, end, streams)?;
    if let Some(seal) = seal {
        // Only stream frames are broken, and the seal repeats what they say.
        if scan.summary.records == seal.records {
            harmless.append(&mut scan.damage);
        } else if scan.damage.is_empty() {
            scan.damage
                .push(Damage { offset: seal.offset, what: "the record count of the seal does not match the frames" });
        }
        scan.seal = Some(seal);
    } else {
        scan.tail = classify_tail(&**file, path, id, scan.end, size)?;
        scan.tail_bytes = size - scan.end;
        let torn_at = scan.end;
        scan.damage.retain(|damage| damage.offset < torn_at);
    }
    scan.harmless.append(&mut harmless);
    Ok(scan)
}

/// Reads the frames up to `end`, where the writer said that the last one ends, with all checks. `streams` are those that
/// are known without reading their frames. What is broken up to there is damage.
///
/// # Errors
/// [`ReadError`] when the operating system cannot read the file.
pub fn scan_frames(
    file: &Arc<dyn File>,
    path: &Path,
    id: Id,
    end: u64,
    streams: Vec<Labels>,
) -> Result<SegmentScan, ReadError> {
    let mut frames = FrameReader::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, streams);
    let mut scan = SegmentScan { end: HEADER_LEN as u64, ..SegmentScan::default() };
    // Looking for a whole frame behind a broken one reads each candidate to its end; bytes made to look like headers
    // could make that quadratic. Beyond this much reading the rest of the file is given up, and reported as damage.
    let mut search_budget = end.saturating_mul(4).saturating_add(1 << 20);
    let mut broken: Option<Damage> = None;
    loop {
        let at = frames.offset();
        match scan_next_frame(&mut frames, &mut scan) {
            Ok(false) => break,
            Ok(true) => {
                scan.damage.extend(broken.take());
                scan.end = frames.offset();
            }
            Err(ReadError::Damaged { damage, .. }) => {
                frames.seek(at);
                if frames.skip_undeclared() {
                    scan.damage.extend(broken.take());
                    scan.damage.push(Damage { offset: at, what: error_text(FrameError::Stream) });
                    scan.end = frames.offset();
                    continue;
                }
                broken.get_or_insert(damage);
                match find_next_marker(&**file, path, at + 1, end, &mut search_budget)? {
                    Some(next) => frames.seek(next),
                    None => break,
                }
            }
            Err(error) => return Err(error),
        }
    }
    if search_budget == 0
        && let Some(damage) = &mut broken
    {
        // Whole frames may follow, so this is more than a torn tail.
        damage.offset = damage.offset.min(scan.end.saturating_sub(1));
    }
    scan.damage.extend(broken);
    scan.streams = frames.streams();
    Ok(scan)
}

/// What stands between the last whole frame and the end of a file without a seal.
fn classify_tail(file: &dyn File, path: &Path, id: Id, end: u64, size: u64) -> Result<SegmentTail, ReadError> {
    let left = size.saturating_sub(end);
    let mut head = [0; FrameHeader::LEN];
    let got = file.read_at(end, &mut head).map_err(ReadError::io(path))?;
    let broken = |error| Ok(SegmentTail::Damaged(Damage { offset: end, what: error_text(error) }));
    if left < FrameHeader::LEN as u64 {
        return match head.get(..got.min(FrameHeader::MARKER.len())).unwrap_or_default() {
            [] => Ok(SegmentTail::Clean),
            begun if FrameHeader::MARKER.starts_with(begun) => Ok(SegmentTail::Torn),
            _ => broken(FrameError::Marker),
        };
    }
    let header = match FrameHeader::parse(&head) {
        Ok(header) => header,
        Err(error) => return broken(error),
    };
    if header.frame_len() <= left {
        return broken(FrameError::Checksum);
    }
    let body_len = left - FrameHeader::LEN as u64;
    if body_len <= FrameHeader::BODY_BYTES_MAX as u64 {
        let mut body = vec![0; body_len as usize];
        file.read_exact_at(end + FrameHeader::LEN as u64, &mut body).map_err(ReadError::io(path))?;
        if FrameHeader::has_damaged_length(super::checksum_seed(id), &head, &body) {
            return broken(FrameError::Header);
        }
    }
    Ok(SegmentTail::Torn)
}

/// The places of the record frames up to `end`, by their headers alone: reading them later checks their checksums. `streams`
/// are those that are known without reading their frames.
///
/// # Errors
/// [`ReadError`] when the frames do not follow each other; [`scan_segment`] then finds those that are whole.
pub fn index_frames(
    file: &Arc<dyn File>,
    path: &Path,
    id: Id,
    end: u64,
    streams: Vec<Labels>,
) -> Result<(Vec<FramePosition>, Vec<Labels>), ReadError> {
    let mut frames = FrameReader::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, streams);
    let mut positions = Vec::new();
    loop {
        let at = frames.offset();
        let Some(header) = frames.next_header()? else { break };
        if header.kind == FrameKind::Records && header.layout_bits & 1 == 0 {
            positions.push(frame_position(at, &header, None));
            continue;
        }
        // Streams, and records that each have a time of their own, have to be read.
        frames.seek(at);
        if header.kind == FrameKind::Stream {
            frames.next_frame()?;
        } else if let Some(chunk) = frames.next_chunk()? {
            positions.push(frame_position(at, &header, chunk.rows.id_range()));
        }
    }
    Ok((positions, frames.streams()))
}

fn frame_position(offset: u64, header: &FrameHeader, span: Option<(Id, Id)>) -> FramePosition {
    let (low, high) = span.unwrap_or((
        header.first_id,
        header.first_id.checked_add(header.count.saturating_sub(1)).unwrap_or(header.first_id),
    ));
    FramePosition { offset, stream: header.stream, first_id: header.first_id, low, high }
}

/// Takes the next frame into the survey; `false` at the end.
fn scan_next_frame(frames: &mut FrameReader, scan: &mut SegmentScan) -> Result<bool, ReadError> {
    let at = frames.offset();
    let Some(header) = frames.next_header()? else { return Ok(false) };
    frames.seek(at);
    if header.kind == FrameKind::Stream {
        return Ok(frames.next_frame()?.is_some());
    }
    let Some(chunk) = frames.next_chunk()? else { return Ok(false) };
    scan.positions.push(frame_position(at, &header, chunk.rows.id_range()));
    scan.summary.add(&chunk.rows, chunk.text.len());
    Ok(true)
}

/// The next offset from `from` on where a frame may start, paying from the budget for what is read here and for the frame.
fn find_next_marker(
    file: &dyn File,
    path: &Path,
    from: u64,
    size: u64,
    budget: &mut u64,
) -> Result<Option<u64>, ReadError> {
    const WINDOW_BYTES: usize = 256 << 10;
    let finder = memchr::memmem::Finder::new(b"BSWF");
    let mut window = vec![0; WINDOW_BYTES];
    let mut at = from;
    while at + FrameHeader::LEN as u64 <= size {
        let got = file.read_at(at, &mut window).map_err(ReadError::io(path))?;
        let have = window.get(..got).unwrap_or_default();
        if let Some(found) = finder.find(have) {
            let found_at = at + found as u64;
            let mut head = [0; FrameHeader::LEN];
            let cost = match file.read_at(found_at, &mut head).map_err(ReadError::io(path))? {
                FrameHeader::LEN => FrameHeader::parse(&head).map_or(found as u64 + 1, |header| header.frame_len()),
                _ => return Ok(None),
            };
            *budget = budget.saturating_sub(cost);
            return Ok((*budget > 0).then_some(found_at));
        }
        *budget = budget.saturating_sub(got as u64);
        if *budget == 0 || got < 4 {
            return Ok(None);
        }
        at += got as u64 - 3;
    }
    Ok(None)
}
