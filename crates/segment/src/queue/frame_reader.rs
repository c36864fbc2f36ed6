//! Walking the frames of a queue segment, forward, a window of the file at a time.

use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use crate::{Chunk, Frame, FrameError, FrameHeader, FrameKind, ReadError};

/// What is read at once when frames are small.
const WINDOW_BYTES: usize = 512 << 10;

/// Reads frames from one offset to another. Holds one window, of half a megabyte or the greatest frame met.
#[derive(Debug)]
pub struct FrameReader {
    file: Arc<dyn File>,
    path: PathBuf,
    seed: u32,
    offset: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    /// By number; `None` where the declaration was damaged.
    streams: Vec<Option<Labels>>,
}

impl FrameReader {
    /// Starts at `from` (the end of the file's header or of a frame) and ends at `to` (the end of a frame). `streams`
    /// are those that were declared before `from`.
    #[must_use]
    pub fn new(file: Arc<dyn File>, path: PathBuf, id: Id, from: u64, to: u64, streams: Vec<Labels>) -> Self {
        let (window, streams) = (Vec::new(), streams.into_iter().map(Some).collect());
        Self { file, path, seed: super::checksum_seed(id), offset: from, end: to, window, window_at: from, streams }
    }

    /// Where the next frame starts.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The streams declared so far, by number; without labels where the declaration is missing.
    #[must_use]
    pub fn streams(&self) -> Vec<Labels> {
        self.streams.iter().map(|labels| labels.clone().unwrap_or_default()).collect()
    }

    fn labels(&self, stream: u32) -> Option<&Labels> {
        self.streams.get(stream as usize)?.as_ref()
    }

    /// Whether a frame with the right checksum stands here whose stream was never declared. Moves past it then.
    pub(super) fn skip_undeclared(&mut self) -> bool {
        let at = self.offset;
        let stream = match self.next_frame() {
            Ok(Some(frame)) if frame.header.kind == FrameKind::Records && frame.rows().is_ok() => frame.header.stream,
            _ => {
                self.offset = at;
                return false;
            }
        };
        if self.labels(stream).is_some() {
            self.offset = at;
            return false;
        }
        true
    }

    /// Moves to another frame.
    pub fn seek(&mut self, at: u64) {
        self.offset = at;
    }

    /// The header of the next frame, without its body and so without a check of its contents; moves past the frame.
    ///
    /// # Errors
    /// [`ReadError`] when no frame stands there.
    pub fn next_header(&mut self) -> Result<Option<FrameHeader>, ReadError> {
        let Some(header) = self.peek()? else { return Ok(None) };
        self.offset += header.frame_len();
        Ok(Some(header))
    }

    /// The next frame, its checksum checked. Stream frames are taken note of and returned as well.
    ///
    /// # Errors
    /// [`ReadError`] when what stands there is not a whole frame; the place is not left then.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        let Some(header) = self.peek()? else { return Ok(None) };
        let at = self.offset;
        let (seed, frame_len) = (self.seed, header.frame_len());
        self.fill(frame_len as usize)?;
        let damaged = |path: &PathBuf, error| ReadError::damaged(path, at, error_text(error));
        let bytes = bytes_at(&self.window, self.window_at, at, frame_len as usize).unwrap_or_default();
        let Some((head, body)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>() else {
            return Err(damaged(&self.path, FrameError::Header));
        };
        let frame = Frame::open(seed, head, body).map_err(|error| damaged(&self.path, error))?;
        if header.kind == FrameKind::Stream {
            let labels = frame.labels().map_err(|error| damaged(&self.path, error))?;
            // Each declaration takes more than a header, so a number beyond this one is none that a writer gave.
            if u64::from(header.stream) > at / FrameHeader::LEN as u64 {
                return Err(damaged(&self.path, FrameError::Body));
            }
            let number = header.stream as usize;
            if number >= self.streams.len() {
                self.streams.resize(number + 1, None);
            }
            if let Some(place) = self.streams.get_mut(number) {
                place.get_or_insert(labels);
            }
        }
        self.offset += frame_len;
        Ok(Some(frame))
    }

    /// The next records, with their stream.
    ///
    /// # Errors
    /// As [`Self::next_frame`], and when the records are not what the header says.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk<'_>>, ReadError> {
        loop {
            let at = self.offset;
            let Some(header) = self.peek()? else { return Ok(None) };
            if header.kind == FrameKind::Stream {
                self.next_frame()?;
                continue;
            }
            let rows = match self.next_frame()? {
                Some(frame) => frame.rows(),
                None => return Ok(None),
            };
            let rows = rows.map_err(|error| ReadError::damaged(&self.path, at, error_text(error)))?;
            let text_at = at + FrameHeader::LEN as u64 + u64::from(header.row_meta_len);
            let text = bytes_at(&self.window, self.window_at, text_at, header.text_len() as usize).unwrap_or_default();
            let Some(Some(labels)) = self.streams.get(header.stream as usize) else {
                return Err(ReadError::damaged(&self.path, at, error_text(FrameError::Stream)));
            };
            return Ok(Some(Chunk { labels, rows: Arc::new(rows), text }));
        }
    }

    fn peek(&mut self) -> Result<Option<FrameHeader>, ReadError> {
        if self.offset >= self.end {
            return Ok(None);
        }
        self.fill(FrameHeader::LEN)?;
        let bytes = bytes_at(&self.window, self.window_at, self.offset, FrameHeader::LEN).unwrap_or_default();
        let damaged = |error| ReadError::damaged(&self.path, self.offset, error_text(error));
        let Some(bytes) = bytes.first_chunk::<{ FrameHeader::LEN }>() else { return Err(damaged(FrameError::Header)) };
        let header = FrameHeader::parse(bytes).map_err(damaged)?;
        if self.offset + header.frame_len() > self.end {
            return Err(ReadError::damaged(&self.path, self.offset, "the frame is torn"));
        }
        Ok(Some(header))
    }

    /// Has `count` bytes from the current place on in the window.
    fn fill(&mut self, count: usize) -> Result<(), ReadError> {
        if bytes_at(&self.window, self.window_at, self.offset, count).is_some() {
            return Ok(());
        }
        if self.offset + count as u64 > self.end {
            return Err(ReadError::damaged(&self.path, self.offset, "the frame is torn"));
        }
        let want = (count.max(WINDOW_BYTES) as u64).min(self.end - self.offset) as usize;
        self.window.resize(want, 0);
        self.window_at = self.offset;
        self.file.read_exact_at(self.offset, &mut self.window).map_err(|error| {
            self.window.clear();
            ReadError::Io { path: self.path.clone(), source: error }
        })
    }
}

/// The `count` bytes at offset `at` of the file, when the window has them.
fn bytes_at(window: &[u8], window_at: u64, at: u64, count: usize) -> Option<&[u8]> {
    let start = usize::try_from(at.checked_sub(window_at)?).ok()?;
    window.get(start..start.checked_add(count)?)
}

pub(super) fn error_text(error: FrameError) -> &'static str {
    match error {
        FrameError::Marker => "no frame starts here",
        FrameError::Header => "the header of the frame is out of bounds",
        FrameError::Checksum => "the checksum of the frame is wrong",
        FrameError::Body => "the body of the frame does not match its header",
        FrameError::Stream => "the labels of the frame's stream are missing",
    }
}
