//! What a queue segment holds, when there is no writer to ask: after a crash, and for `bucksaw verify`.
//!
//! Every whole frame counts. Bytes before a whole frame, or before the seal, that are none were damaged; bytes behind the
//! last whole frame of a file without a seal are its [`Tail`]: a write that a crash has torn, or damage. Nothing here
//! knows how the last run ended, so the caller decides what a tail or a missing seal means.

use std::path::Path;
use std::sync::Arc;

use bucksaw_doors::File;
use bucksaw_record::{Id, Labels};

use super::frames::explain;
use super::{Frames, HEADER_LEN, Seal};
use crate::{Damage, FrameError, Header, Kind, Reach, ReadError};

/// Where a record frame lies, and which ids it spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset in the file.
    pub at: u64,
    /// Number of the stream.
    pub stream: u32,
    /// The id in the header: producer and sequence of the first record, and the time of the batch.
    pub first: Id,
    /// The lowest id.
    pub low: Id,
    /// The highest id.
    pub high: Id,
}

/// What stands behind the last whole frame of a file without a seal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    #[default]
    Clean,
    /// The beginning of a frame: what a process leaves that is killed while it writes.
    Torn,
    /// Bytes that are no beginning of a frame. A power cut can leave them, a killed process cannot.
    Broken(Damage),
}

/// The whole frames of a file.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The record frames, in file order.
    pub places: Vec<Place>,
    /// The streams by number.
    pub streams: Vec<Labels>,
    /// All records.
    pub reach: Reach,
    /// Where the last whole frame ends.
    pub end: u64,
    /// The seal, if the file was closed and its seal is sound.
    pub seal: Option<Seal>,
    /// What stands behind the last whole frame; of a sealed file, always nothing.
    pub tail: Tail,
    /// Bytes of the tail.
    pub torn_bytes: u64,
    /// Places at which records are missing.
    pub damage: Vec<Damage>,
    /// Places that are damaged and of which nothing is missing: the file says the same elsewhere.
    pub harmless: Vec<Damage>,
}

impl Survey {
    /// Number of records that the seal tells of and that were not found; `None` without a seal.
    #[must_use]
    pub fn missing_records(&self) -> Option<u64> {
        self.seal.as_ref().map(|seal| seal.records.saturating_sub(self.reach.records))
    }
}

/// Reads the whole file of the segment `id` with all checks, and looks for whole frames behind broken ones.
///
/// # Errors
/// [`ReadError`] when the file is shorter than its header, belongs to another segment or a newer version, or the operating
/// system cannot read it.
pub fn survey(file: &Arc<dyn File>, path: &Path, id: Id) -> Result<Survey, ReadError> {
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
    let (end, streams) = seal.as_ref().map_or((size, Vec::new()), |seal| (seal.at, seal.streams.clone()));
    let mut survey = examine(file, path, id, end, streams)?;
    if let Some(seal) = seal {
        // Only stream frames are broken, and the seal repeats what they say.
        if survey.reach.records == seal.records {
            harmless.append(&mut survey.damage);
        } else if survey.damage.is_empty() {
            survey.damage.push(Damage { offset: seal.at, what: "the seal tells of other records than there are" });
        }
        survey.seal = Some(seal);
    } else {
        survey.tail = tail(&**file, path, id, survey.end, size)?;
        survey.torn_bytes = size - survey.end;
        let torn_at = survey.end;
        survey.damage.retain(|damage| damage.offset < torn_at);
    }
    survey.harmless.append(&mut harmless);
    Ok(survey)
}

/// Reads the frames up to `end`, where the writer said that the last one ends, with all checks. `streams` are those that
/// are known without reading their frames. What is broken up to there is damage.
///
/// # Errors
/// [`ReadError`] when the operating system cannot read the file.
pub fn examine(file: &Arc<dyn File>, path: &Path, id: Id, end: u64, streams: Vec<Labels>) -> Result<Survey, ReadError> {
    let mut frames = Frames::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, streams);
    let mut survey = Survey { end: HEADER_LEN as u64, ..Survey::default() };
    // Looking for a whole frame behind a broken one reads each candidate to its end; bytes made to look like headers
    // could make that quadratic. Beyond this much reading the rest of the file is given up, and reported as damage.
    let mut search_budget = end.saturating_mul(4).saturating_add(1 << 20);
    let mut broken: Option<Damage> = None;
    loop {
        let at = frames.at();
        match take(&mut frames, &mut survey) {
            Ok(false) => break,
            Ok(true) => {
                survey.damage.extend(broken.take());
                survey.end = frames.at();
            }
            Err(ReadError::Damaged { damage, .. }) => {
                frames.seek(at);
                if frames.skip_undeclared() {
                    survey.damage.extend(broken.take());
                    survey.damage.push(Damage { offset: at, what: explain(FrameError::Stream) });
                    survey.end = frames.at();
                    continue;
                }
                broken.get_or_insert(damage);
                match next_marker(&**file, path, at + 1, end, &mut search_budget)? {
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
        damage.offset = damage.offset.min(survey.end.saturating_sub(1));
    }
    survey.damage.extend(broken);
    survey.streams = frames.streams();
    Ok(survey)
}

/// What stands between the last whole frame and the end of a file without a seal.
fn tail(file: &dyn File, path: &Path, id: Id, end: u64, size: u64) -> Result<Tail, ReadError> {
    let left = size.saturating_sub(end);
    let mut head = [0; Header::LEN];
    let got = file.read_at(end, &mut head).map_err(ReadError::io(path))?;
    let broken = |error| Ok(Tail::Broken(Damage { offset: end, what: explain(error) }));
    if left < Header::LEN as u64 {
        return match head.get(..got.min(Header::MARKER.len())).unwrap_or_default() {
            [] => Ok(Tail::Clean),
            begun if Header::MARKER.starts_with(begun) => Ok(Tail::Torn),
            _ => broken(FrameError::Marker),
        };
    }
    let header = match Header::parse(&head) {
        Ok(header) => header,
        Err(error) => return broken(error),
    };
    if header.frame_len() <= left {
        return broken(FrameError::Checksum);
    }
    let body_len = left - Header::LEN as u64;
    if body_len <= Header::BODY_BYTES_MAX as u64 {
        let mut body = vec![0; body_len as usize];
        file.read_exact_at(end + Header::LEN as u64, &mut body).map_err(ReadError::io(path))?;
        if Header::has_damaged_length(super::seed(id), &head, &body) {
            return broken(FrameError::Header);
        }
    }
    Ok(Tail::Torn)
}

/// The places of the record frames up to `end`, by their headers alone: reading them later checks their checksums. `streams`
/// are those that are known without reading their frames.
///
/// # Errors
/// [`ReadError`] when the frames do not follow each other; [`survey`] then finds those that are whole.
pub fn index(
    file: &Arc<dyn File>,
    path: &Path,
    id: Id,
    end: u64,
    streams: Vec<Labels>,
) -> Result<(Vec<Place>, Vec<Labels>), ReadError> {
    let mut frames = Frames::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, streams);
    let mut places = Vec::new();
    loop {
        let at = frames.at();
        let Some(header) = frames.next_header()? else { break };
        if header.kind == Kind::Records && header.flags & 1 == 0 {
            places.push(place_of(at, &header, None));
            continue;
        }
        // Streams, and records that each have a time of their own, have to be read.
        frames.seek(at);
        if header.kind == Kind::Stream {
            frames.next_frame()?;
        } else if let Some(chunk) = frames.next_chunk()? {
            places.push(place_of(at, &header, chunk.rows.span()));
        }
    }
    Ok((places, frames.streams()))
}

fn place_of(at: u64, header: &Header, span: Option<(Id, Id)>) -> Place {
    let (low, high) =
        span.unwrap_or((header.first, header.first.step(header.count.saturating_sub(1)).unwrap_or(header.first)));
    Place { at, stream: header.stream, first: header.first, low, high }
}

/// Takes the next frame into the survey; `false` at the end.
fn take(frames: &mut Frames, survey: &mut Survey) -> Result<bool, ReadError> {
    let at = frames.at();
    let Some(header) = frames.next_header()? else { return Ok(false) };
    frames.seek(at);
    if header.kind == Kind::Stream {
        return Ok(frames.next_frame()?.is_some());
    }
    let Some(chunk) = frames.next_chunk()? else { return Ok(false) };
    survey.places.push(place_of(at, &header, chunk.rows.span()));
    survey.reach.add(&chunk.rows, chunk.text.len());
    Ok(true)
}

/// The next offset from `from` on where a frame may start, paying from the budget for what is read here and for the frame.
fn next_marker(file: &dyn File, path: &Path, from: u64, size: u64, budget: &mut u64) -> Result<Option<u64>, ReadError> {
    const STEP: usize = 256 << 10;
    let finder = memchr::memmem::Finder::new(b"BSWF");
    let mut window = vec![0; STEP];
    let mut at = from;
    while at + Header::LEN as u64 <= size {
        let got = file.read_at(at, &mut window).map_err(ReadError::io(path))?;
        let have = window.get(..got).unwrap_or_default();
        if let Some(found) = finder.find(have) {
            let found_at = at + found as u64;
            let mut head = [0; Header::LEN];
            let cost = match file.read_at(found_at, &mut head).map_err(ReadError::io(path))? {
                Header::LEN => Header::parse(&head).map_or(found as u64 + 1, |header| header.frame_len()),
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
