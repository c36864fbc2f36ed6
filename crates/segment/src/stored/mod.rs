//! store segments: the immutable files that the store keeps.
//!
//! ```text
//!   offset      size  field      meaning (little-endian)
//!        0         8  magic      "BSWSTORE"
//!        8         4  version    1
//!       12         4  crc32c     over the 12 bytes before and the 16 after
//!       16        16  id         of this segment
//!       32            blocks     each its packed rows column, its packed text column, its filter, and a recovery record
//!                     backup     of the footer and the header
//!                     footer     packed with zstd, see [`Footer`]
//!   end − 32       8  footer_at  offset of the footer
//!   end − 24       4  footer_len bytes of the packed footer
//!   end − 20       4  footer_raw bytes of the footer unpacked
//!   end − 16       4  crc32c     over the packed footer
//!   end − 12       4  crc32c     over the 20 bytes before
//!   end −  8       8  magic      "BSWFOOT1"
//! ```
//! The footer stands at the end so that a writer appends once and never seeks.
//! One damaged sector loses nothing: the recovery record rebuilds a page of its block, and the backup stands in for the
//! header and the footer. Where both footers are lost, the recovery records tell where the blocks lie ([`Examined`]).
//!
//! Invariant: a file without a valid trailer is not sealed, and nothing reads it. A sealed file never changes.
//! Invariant: the blocks follow each other in the order of their lowest ids.

mod backup;
mod footer;
mod reader;
mod recovery;
mod verify;
mod writer;

pub use footer::{BlockEntry, Footer, MergeInfo};
pub use reader::{PackedBlock, Reader, SearchableBlock};
pub use verify::VerifiedSegment;
pub use writer::{SegmentOrigin, Writer};

/// The format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Bytes before the first block.
pub const HEADER_LEN: usize = 32;

/// Bytes after the footer.
pub const TRAILER_LEN: usize = 32;

/// The greatest column that is unpacked, so that damaged or hostile bytes cannot ask for more memory than this.
pub const COLUMN_BYTES_MAX: usize = 128 << 20;

/// The greatest filter of a block.
pub const FILTER_BYTES_MAX: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"BSWSTORE";
const END_MAGIC: [u8; 8] = *b"BSWFOOT1";

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
