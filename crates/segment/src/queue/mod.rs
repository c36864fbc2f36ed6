//! Queue segments: the files that ingest appends to.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     8  magic     "BSWQUEUE"
//!        8     4  version   1
//!       12     4  crc32c    over the 12 bytes before and the 16 after
//!       16    16  id        of this segment; seeds the checksums of the frames
//!       32        frames    one after the other, see [`Frame`](crate::Frame)
//!                 seal      in a closed segment only, see [`Seal`]
//! ```
//! Stream frames number the streams of the file 0, 1, 2, …; each stands before the first record frame that refers to it.
//!
//! Invariant: bytes are only ever appended, so whatever a reader found to be whole stays so. A file may end in a torn
//! frame after a crash; readers stop at the length that the writer published, and [`scan_segment`] finds the whole frames when
//! there is no writer to ask.
//! Invariant: nothing follows the seal, so a closed file that does not end in one has lost something.

mod frame_reader;
mod rewrite;
mod seal;
mod segment_scan;

use std::path::Path;

use bucksaw_env::File;
use bucksaw_record::Id;

use crate::ReadError;
use crate::varint::Reader;

pub use frame_reader::FrameReader;
pub use rewrite::rewrite;
pub use seal::Seal;
pub use segment_scan::{FramePosition, SegmentScan, SegmentTail, index_frames, scan_frames, scan_segment};

/// Bytes before the first frame.
pub const HEADER_LEN: usize = 32;

/// The format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"BSWQUEUE";

/// The bytes that a queue segment starts with.
#[must_use]
pub fn encode_header(id: Id) -> [u8; HEADER_LEN] {
    let (magic, version, id) = (MAGIC, VERSION.to_le_bytes(), id.bits().to_le_bytes());
    let crc = header_checksum(&magic, &version, &id).to_le_bytes();
    let mut bytes = [0; HEADER_LEN];
    for (place, byte) in bytes.iter_mut().zip(magic.iter().chain(&version).chain(&crc).chain(&id)) {
        *place = *byte;
    }
    bytes
}

/// The seed of the checksums of a file's frames.
#[must_use]
pub fn checksum_seed(id: Id) -> u32 {
    crc32c::crc32c(&id.bits().to_le_bytes())
}

/// Reads the id of a queue segment.
///
/// # Errors
/// [`ReadError`] when the file is none, is damaged at its start, or is of a newer version.
pub fn read_header(file: &dyn File, path: &Path) -> Result<Id, ReadError> {
    let mut bytes = [0; HEADER_LEN];
    if file.read_at(0, &mut bytes).map_err(ReadError::io(path))? < HEADER_LEN {
        return Err(ReadError::damaged(path, 0, "the file ends within its header"));
    }
    let mut reader = Reader(&bytes);
    let fields = (reader.bytes(8), reader.bytes(4), reader.u32(), reader.bytes(16));
    let (Some(magic), Some(version), Some(crc), Some(id)) = fields else {
        return Err(ReadError::damaged(path, 0, "the header is short"));
    };
    if magic != MAGIC {
        return Err(ReadError::damaged(path, 0, "not a queue segment"));
    }
    if header_checksum(magic, version, id) != crc {
        return Err(ReadError::damaged(path, 12, "the checksum of the header does not fit"));
    }
    let (version, id) = (Reader(version).u32().unwrap_or_default(), Reader(id).u128().unwrap_or_default());
    if version > VERSION {
        return Err(ReadError::Version { path: path.to_owned(), found: version, known: VERSION });
    }
    Ok(Id::from_bits(id))
}

fn header_checksum(magic: &[u8], version: &[u8], id: &[u8]) -> u32 {
    [magic, version, id].iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

#[cfg(test)]
mod tests;
