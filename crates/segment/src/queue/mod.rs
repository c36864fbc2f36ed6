//! Queue segments: the append-only files of ingest.
//!
//! A header, then frames ([`Frame`](crate::Frame)) without gaps, and a [`Seal`] at the end of a closed segment. Stream frames
//! number the streams of the file 0, 1, 2, …; each precedes the first record frame of its stream.
//!
//! Invariant: bytes are only appended, so a whole frame stays whole. A crash may leave a torn frame at the end: readers stop
//! at the length that the writer published, and without a writer [`scan_segment`] finds the whole frames.
//! Invariant: nothing follows the seal. A closed file without a seal at its end has lost something.

mod frame_reader;
mod rewrite;
mod seal;
mod segment_scan;

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, FileCipher};
use bucksaw_record::Id;

use crate::file_header::{self, FileHeader, FileKind};
use crate::{ReadError, RowMeta};

pub use frame_reader::FrameReader;
pub use rewrite::rewrite;
pub use seal::Seal;
pub use segment_scan::{FramePosition, SegmentScan, SegmentTail, index_frames, scan_frames, scan_segment};

/// Bytes before the first frame.
pub const HEADER_LEN: usize = file_header::HEADER_LEN;

/// The newest version that is read. Version 1 is written unless the frames need this one: [`frames_version`].
pub const VERSION: u32 = 2;

const KIND: FileKind = FileKind { magic: *b"BSWQUEUE", version: VERSION, mismatch: "not a queue segment" };

/// The version of a file that has frames with these layout bits.
pub fn frames_version(layout_bits: u8) -> u32 {
    if RowMeta::needs_version_2(layout_bits) { 2 } else { 1 }
}

/// The header of a queue segment.
pub fn encode_header(header: FileHeader) -> [u8; HEADER_LEN] {
    KIND.encode_header(header)
}

/// The seed of the checksums of a file's frames.
pub fn checksum_seed(id: Id) -> u32 {
    file_header::checksum_seed(id)
}

/// Encrypts the frames of a new file; `None` if its file system has no keys.
pub fn frame_cipher(file: &dyn File, id: Id) -> Option<Arc<dyn FileCipher>> {
    crate::encryption::writing_cipher(file, &KIND, id)
}

/// Reads the header of a queue segment.
///
/// # Errors
/// [`ReadError`] if the file is no queue segment, is of a newer version, or its header is damaged.
pub fn read_header(file: &dyn File, path: &Path) -> Result<FileHeader, ReadError> {
    KIND.read_header(file, path)
}

#[cfg(test)]
mod tests;
