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

use bucksaw_env::File;
use bucksaw_record::Id;

use crate::ReadError;
use crate::file_header::{self, FileKind};

pub use frame_reader::FrameReader;
pub use rewrite::rewrite;
pub use seal::Seal;
pub use segment_scan::{FramePosition, SegmentScan, SegmentTail, index_frames, scan_frames, scan_segment};

/// Bytes before the first frame.
pub const HEADER_LEN: usize = file_header::HEADER_LEN;

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

const KIND: FileKind = FileKind { magic: *b"BSWQUEUE", version: VERSION, mismatch: "not a queue segment" };

/// The header of a queue segment.
pub fn encode_header(id: Id) -> [u8; HEADER_LEN] {
    KIND.encode_header(id)
}

/// The seed of the checksums of a file's frames.
pub fn checksum_seed(id: Id) -> u32 {
    file_header::checksum_seed(id)
}

/// Reads the id of a queue segment.
///
/// # Errors
/// [`ReadError`] if the file is no queue segment, is of a newer version, or its header is damaged.
pub fn read_header(file: &dyn File, path: &Path) -> Result<Id, ReadError> {
    KIND.read_header(file, path)
}

#[cfg(test)]
mod tests;
