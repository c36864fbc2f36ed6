//! Stored segments: the immutable files of the store.
//!
//! A header, blocks with a recovery record each, [digests](ReplicaDigests) of its ids if it has replicas, a backup of footer and
//! header, the [`Footer`], and a trailer: `docs/format.md`, "Stored segment". The footer is at the end, so that a writer only appends.
//!
//! One damaged sector loses nothing: a recovery record rebuilds a page of its block, and the backup replaces a damaged header
//! or footer. If both footers are lost, the recovery records locate the blocks ([`VerifiedSegment`]).
//!
//! Invariant: a file without a valid trailer is not sealed, and is not read. A sealed file never changes.
//! Invariant: the blocks are in the order of their lowest ids.

mod backup;
mod footer;
mod reader;
mod recovery;
pub(crate) mod replica_digests;
mod stream_table;
mod verify;
mod writer;

use crate::file_header::{self, FileKind};

pub use footer::{BlockEntry, Footer, MergeInfo};
pub use reader::{PackedBlock, Reader, SearchableBlock};
pub use replica_digests::{BlockDigest, IdSum, Interval, ReplicaDigests, ReplicaGroup};
pub use verify::VerifiedSegment;
pub use writer::{SegmentOrigin, Writer};

/// The newest version that is read. Version 1 is written unless a block has records of several lines; then this version, in which
/// they may be columns. Version 2 has them as plain text, LZ4 or zstd.
pub const VERSION: u32 = 3;

/// Bytes before the first block.
pub const HEADER_LEN: usize = file_header::HEADER_LEN;

/// Bytes after the footer.
pub const TRAILER_LEN: usize = 32;

/// Maximum bytes of an unpacked column, which bounds the memory that damaged or hostile bytes can cause.
pub const COLUMN_BYTES_MAX: usize = 128 << 20;

/// Maximum bytes of the filter of a block.
pub const FILTER_BYTES_MAX: usize = 1 << 20;

const KIND: FileKind = FileKind { magic: *b"BSWSTORE", version: VERSION, mismatch: "not a stored segment" };
const END_MAGIC: [u8; 8] = *b"BSWFOOT1";

#[cfg(test)]
mod tests;
