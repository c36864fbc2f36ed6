//! Scans a queue segment that has no writer: after a crash, and for `bucksaw verify`.
//!
//! Every whole frame counts. Other bytes before a whole frame or before the seal are damage. Bytes after the last whole frame
//! of an unsealed file are its [`SegmentTail`]: a torn write, or damage. The scan cannot tell how the last process ended, so
//! the caller decides what a tail or a missing seal means.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use super::{FrameReader, HEADER_LEN, Seal};
use crate::{Damage, FrameError, FrameHeader, FrameKind, ReadError, RecordSummary};

/// The position of a record frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePosition {
    /// Offset in the file.
    pub offset: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The id in the header: producer and sequence number of the first record, and the time of the batch.
    pub first_id: Id,
    /// The lowest id.
    pub low: Id,
    /// The highest id.
    pub high: Id,
}

/// The bytes after the last whole frame of an unsealed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SegmentTail {
    /// None.
    #[default]
    Clean,
    /// The beginning of a frame: the write of a killed process.
    Torn,
    /// Other bytes. A power cut can leave them, a killed process cannot.
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
    /// The end of the last whole frame.
    pub end: u64,
    /// The seal, if it is present and intact.
    pub seal: Option<Seal>,
    /// The tail; clean in a sealed file.
    pub tail: SegmentTail,
    /// Bytes of the tail.
    pub tail_bytes: u64,
    /// Damage that loses records.
    pub damage: Vec<Damage>,
    /// Damage that loses nothing, because the file repeats the content.
    pub harmless: Vec<Damage>,
}

impl SegmentScan {
    /// Number of records that the seal states and that were not found; `None` without a seal.
    pub fn missing_records(&self) -> Option<u64> {
        self.seal.as_ref().map(|seal| seal.records.saturating_sub(self.summary.records))
    }
}

/// Reads and verifies the whole file of segment `id`, and searches for whole frames after damaged ones.
///
/// # Errors
/// [`ReadError`] if the file is shorter than its header, belongs to another segment or a newer version, or cannot be read.
pub fn scan_segment(file: &Arc<dyn File>, path: &Path, id: Id) -> Result<SegmentScan, ReadError> {
    let size = file.size().map_err(ReadError::io(path))?;
    let mut harmless = Vec::new();
    match super::read_header(&**file, path) {
        Ok(own) if own.id != id => {
            return Err(ReadError::damaged(path, 16, "the id in the header is not the one in the file's name"));
        }
        // The name of the file repeats the header, and the seed of the frames' checksums proves the id.
        Err(ReadError::Damaged { damage, .. }) if size >= HEADER_LEN as u64 => harmless.push(damage),
        other => drop(other?),
    }
    let seal = Seal::find(&**file, path, id, size)?;
    let (end, streams) = seal.as_ref().map_or((size, Vec::new()), |seal| (seal.offset, seal.streams.clone()));
    let mut scan = scan_frames(file, path, id, end, streams)?;
    if let Some(seal) = seal {
        // Only stream frames are damaged, and the seal repeats their labels.
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

/// Reads and verifies the frames up to `end`, the end of the last one. `streams` are those known without their frames.
///
/// # Errors
/// [`ReadError`] if the file cannot be read.
pub fn scan_frames(
    file: &Arc<dyn File>,
    path: &Path,
    id: Id,
    end: u64,
    streams: Vec<Labels>,
) -> Result<SegmentScan, ReadError> {
    let mut frames = FrameReader::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, streams);
    let mut scan = SegmentScan { end: HEADER_LEN as u64, ..SegmentScan::default() };
    // The search for a whole frame reads each candidate to its end, which crafted bytes could make quadratic. When the budget
    // is used up, the rest of the file counts as damage.
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
                    scan.damage.push(Damage { offset: at, what: FrameError::Stream.text() });
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

/// Classifies the bytes between the last whole frame and the end of an unsealed file.
fn classify_tail(file: &dyn File, path: &Path, id: Id, end: u64, size: u64) -> Result<SegmentTail, ReadError> {
    let left = size.saturating_sub(end);
    let mut head = [0; FrameHeader::LEN];
    let got = file.read_at(end, &mut head).map_err(ReadError::io(path))?;
    let broken = |error: FrameError| Ok(SegmentTail::Damaged(Damage { offset: end, what: error.text() }));
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
        let body_at = end + FrameHeader::LEN as u64;
        let body = file.read_bytes(body_at, body_len as usize).map_err(ReadError::io(path))?;
        if FrameHeader::has_damaged_length(super::checksum_seed(id), &head, &body) {
            return broken(FrameError::Header);
        }
    }
    Ok(SegmentTail::Torn)
}

/// The positions of the record frames up to `end`, from their headers: checksums are verified when frames are read. `streams`
/// are those known without their frames.
///
/// # Errors
/// [`ReadError`] if the frames are not contiguous; [`scan_segment`] then finds the whole ones.
pub fn index_frames(
    file: &Arc<dyn File>,
    path: &Path,
    id: Id,
    end: u64,
    streams: Vec<Labels>,
) -> Result<(Vec<FramePosition>, Vec<Labels>), ReadError> {
    let mut frames = FrameReader::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, streams);
    let mut positions = Vec::new();
    while let Some(header) = frames.peek_header()? {
        let at = frames.offset();
        if header.kind == FrameKind::Stream {
            frames.next_frame()?;
        } else if let Some(range) = frames.peek_id_range(&header)? {
            positions.push(frame_position(at, &header, Some(range)));
            frames.seek(at + header.frame_len());
        } else {
            // Damaged: the error says what is.
            frames.next_chunk()?;
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

/// Adds the next frame to the scan; `false` at the end.
fn scan_next_frame(frames: &mut FrameReader, scan: &mut SegmentScan) -> Result<bool, ReadError> {
    let at = frames.offset();
    let Some(header) = frames.peek_header()? else { return Ok(false) };
    if header.kind == FrameKind::Stream {
        return Ok(frames.next_frame()?.is_some());
    }
    let Some(chunk) = frames.next_chunk()? else { return Ok(false) };
    scan.positions.push(frame_position(at, &header, chunk.rows.id_range()));
    scan.summary.add(&chunk.rows, chunk.text.len());
    Ok(true)
}

/// The next offset from `from` on where a frame may start. The bytes of the search and of the frame are taken from the budget.
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
