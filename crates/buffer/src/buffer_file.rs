//! A buffer file as a sequence of entries, also if parts of it are damaged.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_env::File;
use memchr::memmem;

use crate::entry::{BufferEntryKind, EntryHeader, HEADER_LEN, MARKER, NUMBER_MAX};
use crate::rewind::Rewind;

/// The extension of buffer files.
pub(crate) const EXTENSION: &str = "buffer";

/// Bytes that are searched at once for the entry behind a damaged header.
const SEARCH_BYTES: usize = 64 << 10;

/// A file of the buffer.
#[derive(Clone, Debug)]
pub(crate) struct BufferFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    pub(crate) first_batch: u64,
    pub(crate) bytes: u64,
}

/// The name of the file whose first batch has this number.
pub(crate) fn file_name(first_batch: u64) -> String {
    format!("{first_batch:016x}.{EXTENSION}")
}

/// The number of the first batch of a file of this name; `None` if it is the name of no buffer file.
pub(crate) fn first_batch(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    u64::from_str_radix(digits, 16).ok().filter(|number| *number <= NUMBER_MAX && file_name(*number) == name)
}

/// Reads the entries of a file in order.
#[derive(Clone, Debug)]
pub(crate) struct EntryReader {
    pub(crate) file: Arc<dyn File>,
    /// Where the next entry starts.
    pub(crate) offset: u64,
}

/// An entry, or what is in its place.
#[derive(Debug)]
pub(crate) enum ReadEntry {
    /// An entry, and its body if that is undamaged.
    Entry(EntryHeader, Option<Vec<u8>>),
    /// Bytes that are no entry, up to the next one or to the end of the file.
    Damage,
    End,
}

impl EntryReader {
    pub(crate) fn new(file: Arc<dyn File>) -> Self {
        Self { file, offset: 0 }
    }

    /// Reads the next entry. The end is `end`, at most the length of the file.
    pub(crate) fn next(&mut self, end: u64) -> io::Result<ReadEntry> {
        let start = self.offset;
        let found = self.next_header(end)?;
        let ReadEntry::Entry(header, _) = found else { return Ok(found) };
        // A read error leaves the reader where it was.
        self.offset = start;
        let body = self.file.read_bytes(start + HEADER_LEN as u64, header.body_len as usize)?;
        self.offset += header.entry_len();
        let body = header.split(&body).is_some().then_some(body);
        Ok(ReadEntry::Entry(header, body))
    }

    /// The same without reading the body.
    pub(crate) fn next_header(&mut self, end: u64) -> io::Result<ReadEntry> {
        if self.offset >= end {
            return Ok(ReadEntry::End);
        }
        let mut bytes = [0; HEADER_LEN];
        let length = self.file.read_at(self.offset, &mut bytes)?;
        let header = bytes.get(..length).and_then(EntryHeader::decode);
        let Some(header) = header.filter(|header| self.offset + header.entry_len() <= end) else {
            self.offset = self.find_entry(self.offset + 1, end)?;
            return Ok(ReadEntry::Damage);
        };
        self.offset += header.entry_len();
        Ok(ReadEntry::Entry(header, None))
    }

    /// The rewind in the snapshot whose header was read last; `None` if it has none, or is damaged.
    pub(crate) fn read_rewind(&self, header: &EntryHeader) -> io::Result<Option<Rewind>> {
        if header.kind != BufferEntryKind::Snapshot || header.frame_len() == 0 {
            return Ok(None);
        }
        let length = header.body_len as usize;
        let body = self.file.read_bytes(self.offset - u64::from(header.body_len), length)?;
        Ok(header.split(&body).and_then(|[.., frame]| Rewind::decode(frame)))
    }

    /// The offset of the first undamaged header from `offset` on, or `end`.
    fn find_entry(&self, mut offset: u64, end: u64) -> io::Result<u64> {
        let mut bytes = vec![0; SEARCH_BYTES];
        while offset < end {
            let length = self.file.read_at(offset, &mut bytes)?;
            let searched = bytes.get(..length).unwrap_or_default();
            for at in memmem::find_iter(searched, &MARKER) {
                let mut header = [0; HEADER_LEN];
                let length = self.file.read_at(offset + at as u64, &mut header)?;
                let header = header.get(..length).and_then(EntryHeader::decode);
                if header.is_some_and(|header| offset + at as u64 + header.entry_len() <= end) {
                    return Ok(offset + at as u64);
                }
            }
            if length < SEARCH_BYTES {
                break;
            }
            // A marker may span two searches.
            offset += (length - MARKER.len() + 1) as u64;
        }
        Ok(end)
    }
}
