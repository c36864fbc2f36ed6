//! What a queue segment holds, when there is no writer to ask: after a crash, and for `bucksaw verify`.
//!
//! Every whole frame counts. Bytes that are none are either a torn tail, which is what a crash leaves and is no damage,
//! or lie before a whole frame: then something was damaged that had been whole, or a power cut dropped a page before a
//! later one; both are reported.

use std::path::Path;
use std::sync::Arc;

use bucksaw_doors::File;
use bucksaw_record::{Id, Labels};

use super::{Frames, HEADER_LEN};
use crate::{Damage, Header, Kind, Reach, ReadError};

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
    /// Bytes after that: a frame that was being written.
    pub torn_bytes: u64,
    /// What lies broken between whole frames.
    pub damage: Vec<Damage>,
}

/// Reads a whole file with all checks and looks for whole frames behind broken ones.
///
/// # Errors
/// [`ReadError`] when the header of the file is damaged, or the operating system cannot read it.
pub fn survey(file: &Arc<dyn File>, path: &Path) -> Result<Survey, ReadError> {
    let id = super::read_header(&**file, path)?;
    let size = file.size().map_err(ReadError::io(path))?;
    let mut frames = Frames::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, size, Vec::new());
    let mut survey = Survey { end: HEADER_LEN as u64, ..Survey::default() };
    // Looking for a whole frame behind a broken one reads each candidate to its end; bytes made to look like headers
    // could make that quadratic. Beyond this much reading the rest of the file is given up, and reported as damage.
    let mut search_budget = size.saturating_mul(4).saturating_add(1 << 20);
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
                broken.get_or_insert(damage);
                match next_marker(&**file, path, at + 1, size, &mut search_budget)? {
                    Some(next) => frames.seek(next),
                    None => break,
                }
            }
            Err(error) => return Err(error),
        }
    }
    if search_budget == 0 {
        survey.damage.extend(broken);
    }
    survey.torn_bytes = size - survey.end;
    survey.streams = frames.streams().to_vec();
    Ok(survey)
}

/// The places of the record frames up to `end`, by their headers alone: reading them later checks their checksums.
///
/// # Errors
/// [`ReadError`] when the frames do not follow each other; [`survey`] then finds those that are whole.
pub fn index(file: &Arc<dyn File>, path: &Path, end: u64) -> Result<(Vec<Place>, Vec<Labels>), ReadError> {
    let id = super::read_header(&**file, path)?;
    let mut frames = Frames::new(Arc::clone(file), path.to_owned(), id, HEADER_LEN as u64, end, Vec::new());
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
    Ok((places, frames.streams().to_vec()))
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
