//! Reads the frames of a queue segment forward, one window of the file at a time.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use crate::encryption::{DecryptError, Decryptor};
use crate::{Chunk, Frame, FrameError, FrameHeader, FrameKind, ReadError, RowMeta, Rows, StreamSlice};

/// Bytes that one read takes while frames are small.
const WINDOW_BYTES: usize = 512 << 10;

/// Reads the frames from one offset to another. Its memory is one window, or the largest frame so far.
#[derive(Debug)]
pub struct FrameReader {
    file: Arc<dyn File>,
    path: PathBuf,
    seed: u32,
    offset: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    /// By number; `None` if the stream frame is damaged.
    streams: Vec<Option<Labels>>,
    decryptor: Decryptor,
    /// The body of the last frame, if that is encrypted.
    decrypted: Option<Vec<u8>>,
}

impl FrameReader {
    /// Reads from `from` (the end of the header or of a frame) to `to` (the end of a frame). `streams` are those declared
    /// before `from`.
    pub fn new(file: Arc<dyn File>, path: PathBuf, id: Id, from: u64, to: u64, streams: Vec<Labels>) -> Self {
        let (window, streams) = (Vec::new(), streams.into_iter().map(Some).collect());
        let (seed, decryptor) = (super::checksum_seed(id), Decryptor::new(&*file, &super::KIND, id));
        Self { file, path, seed, offset: from, end: to, window, window_at: from, streams, decryptor, decrypted: None }
    }

    /// The offset of the next frame.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The streams declared so far, by number; empty labels if the stream frame is damaged.
    pub fn streams(&self) -> Vec<Labels> {
        self.streams.iter().map(|labels| labels.clone().unwrap_or_default()).collect()
    }

    /// Skips the next frame if it is an intact record frame whose stream was not declared. Returns whether it was.
    pub(super) fn skip_undeclared(&mut self) -> bool {
        let at = self.offset;
        let stream = match self.next_frame() {
            Ok(Some(frame)) if frame.rows().is_ok() => Some(frame.header.stream),
            _ => None,
        };
        let is_undeclared = stream.is_some_and(|stream| self.streams.get(stream as usize).is_none_or(Option::is_none));
        if !is_undeclared {
            self.offset = at;
        }
        is_undeclared
    }

    /// Moves to another frame.
    pub fn seek(&mut self, at: u64) {
        self.offset = at;
    }

    /// The next frame, its checksum verified and its body decrypted. A stream frame declares its stream.
    ///
    /// # Errors
    /// [`ReadError`] if the frame is torn or damaged, or its key is unknown; the offset is unchanged.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ReadError> {
        let Some(header) = self.peek_header()? else { return Ok(None) };
        let at = self.offset;
        let (seed, frame_len) = (self.seed, header.frame_len());
        self.fill(frame_len as usize)?;
        let damaged = |path: &PathBuf, error: FrameError| ReadError::damaged(path, at, error.text());
        let bytes = bytes_at(&self.window, self.window_at, at, frame_len as usize).unwrap_or_default();
        let Some((head, body)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>() else {
            return Err(damaged(&self.path, FrameError::Header));
        };
        let mut frame = Frame::open(seed, head, body).map_err(|error| damaged(&self.path, error))?;
        self.decrypted = None;
        if header.is_encrypted() {
            let decrypted = self.decryptor.decrypt(Frame::context(head), body.to_vec());
            let decrypted = decrypted.map_err(|error| match error {
                DecryptError::NoKey(key) => ReadError::MissingKey { path: self.path.clone(), key },
                DecryptError::Changed => damaged(&self.path, FrameError::Encryption),
            })?;
            let body = self.decrypted.insert(decrypted);
            frame = frame.with_decrypted(body).ok_or_else(|| damaged(&self.path, FrameError::Body))?;
        }
        if header.kind == FrameKind::Stream {
            let labels = frame.labels().map_err(|error| damaged(&self.path, error))?;
            // Each stream frame is longer than a header, which bounds the numbers that a writer can have given.
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
    /// As [`Self::next_frame`], and if the records do not match the header or the stream was not declared.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk<'_>>, ReadError> {
        let Some((stream, rows, range)) = self.next_records()? else { return Ok(None) };
        let Some(Some(labels)) = self.streams.get(stream) else { return Ok(None) };
        let text = self.decrypted.as_ref().unwrap_or(&self.window).get(range).unwrap_or_default();
        Ok(Some(Chunk { labels, rows: Arc::new(rows), text }))
    }

    /// As [`Self::next_chunk`], with the memory of the text: the window, if the text is most of it, and a copy otherwise.
    ///
    /// # Errors
    /// As [`Self::next_chunk`].
    pub fn take_chunk(&mut self) -> Result<Option<(Vec<u8>, StreamSlice)>, ReadError> {
        let Some((stream, rows, mut range)) = self.next_records()? else { return Ok(None) };
        let Some(Some(labels)) = self.streams.get(stream) else { return Ok(None) };
        let text = if let Some(decrypted) = self.decrypted.take() {
            decrypted
        } else if range.len() * 2 >= self.window.capacity() {
            std::mem::take(&mut self.window)
        } else {
            let copy = self.window.get(range).unwrap_or_default().to_vec();
            range = 0..copy.len();
            copy
        };
        Ok(Some((text, StreamSlice { labels: labels.clone(), rows: Arc::new(rows), range })))
    }

    /// The stream of the next records, which is declared, their rows, and the place of their text: in the decrypted body if there
    /// is one, else in the window.
    fn next_records(&mut self) -> Result<Option<(usize, Rows, Range<usize>)>, ReadError> {
        loop {
            let at = self.offset;
            let (header, rows) = match self.next_frame()? {
                None => return Ok(None),
                Some(frame) if frame.header.kind == FrameKind::Stream => continue,
                Some(frame) => (frame.header, frame.rows()),
            };
            let rows = rows.map_err(|error| ReadError::damaged(&self.path, at, error.text()))?;
            let stream = header.stream as usize;
            if self.streams.get(stream).is_none_or(Option::is_none) {
                return Err(ReadError::damaged(&self.path, at, FrameError::Stream.text()));
            }
            let text_at = at + FrameHeader::LEN as u64 + u64::from(header.row_meta_len);
            let start = match &self.decrypted {
                Some(_) => header.row_meta_len as usize,
                None => text_at.saturating_sub(self.window_at) as usize,
            };
            return Ok(Some((stream, rows, start..start + header.text_len() as usize)));
        }
    }

    /// The lowest and the highest id of the next frame's records, whose header is `header`. Unless it is encrypted, its text is not
    /// read, and no checksum is verified. `None` if its times are damaged.
    ///
    /// # Errors
    /// [`ReadError`] if the file cannot be read.
    pub(super) fn peek_id_range(&mut self, header: &FrameHeader) -> Result<Option<(Id, Id)>, ReadError> {
        let meta_len = header.row_meta_len as usize;
        if header.is_encrypted() && meta_len > 0 {
            let at = self.offset;
            let rows = self.next_frame()?.and_then(|frame| frame.rows().ok());
            self.offset = at;
            return Ok(rows.and_then(|rows| rows.id_range()));
        }
        self.fill_with(FrameHeader::LEN + meta_len, FrameHeader::LEN + meta_len)?;
        let meta_at = self.offset + FrameHeader::LEN as u64;
        let meta = bytes_at(&self.window, self.window_at, meta_at, meta_len).unwrap_or_default();
        Ok(RowMeta::id_range(header.layout_bits, meta, header.first_id, header.count))
    }

    /// The header of the next frame. Its checksum is not verified, and the offset does not change.
    ///
    /// # Errors
    /// [`ReadError`] if the header is damaged or the frame is torn.
    pub fn peek_header(&mut self) -> Result<Option<FrameHeader>, ReadError> {
        if self.offset >= self.end {
            return Ok(None);
        }
        self.fill(FrameHeader::LEN)?;
        let bytes = bytes_at(&self.window, self.window_at, self.offset, FrameHeader::LEN).unwrap_or_default();
        let header = bytes.first_chunk().map_or(Err(FrameError::Header), FrameHeader::parse);
        let header = header.map_err(|error| ReadError::damaged(&self.path, self.offset, error.text()))?;
        if self.offset + header.frame_len() > self.end {
            return Err(self.torn());
        }
        Ok(Some(header))
    }

    fn torn(&self) -> ReadError {
        ReadError::damaged(&self.path, self.offset, "the frame is torn")
    }

    /// Makes the window contain the next `count` bytes.
    fn fill(&mut self, count: usize) -> Result<(), ReadError> {
        self.fill_with(count, WINDOW_BYTES)
    }

    /// Makes the window contain the next `count` bytes. If they must be read, at least `window_bytes` are.
    fn fill_with(&mut self, count: usize, window_bytes: usize) -> Result<(), ReadError> {
        if bytes_at(&self.window, self.window_at, self.offset, count).is_some() {
            return Ok(());
        }
        if self.offset + count as u64 > self.end {
            return Err(self.torn());
        }
        let want = (count.max(window_bytes) as u64).min(self.end - self.offset) as usize;
        self.window.resize(want, 0);
        self.window_at = self.offset;
        self.file.read_exact_at(self.offset, &mut self.window).map_err(|source| {
            self.window.clear();
            ReadError::Io { path: self.path.clone(), source }
        })
    }
}

/// The `count` bytes at offset `at` of the file, if the window contains them.
fn bytes_at(window: &[u8], window_at: u64, at: u64, count: usize) -> Option<&[u8]> {
    let start = usize::try_from(at.checked_sub(window_at)?).ok()?;
    window.get(start..start.checked_add(count)?)
}
