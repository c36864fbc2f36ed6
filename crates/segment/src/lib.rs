//! The file formats of segments: writers, readers and verification.
//!
//! A *queue segment* ([`queue`]) is append-only: frames of whole chunks of lines, each with a checksum, in the order of
//! arrival. A *stored segment* ([`stored`]) is immutable: compressed blocks of records in the order of their ids, and a
//! footer that describes each block. Both yield [`Chunk`]s for searching: records of one stream with contiguous text.
//!
//! `docs/format.md` specifies both formats; a test compares its numbers with the constants here.
//!
//! The crate has no threads and no clock, and does not decide when a segment is created, moved or removed; `ingest` and
//! `store` do.
#![deny(clippy::indexing_slicing)]

mod attribute_column;
mod block;
mod chunk;
mod codec;
mod encryption;
mod error;
mod file_header;
mod frame;
pub mod health;
mod line_classes;
pub mod queue;
mod record_block;
mod row_meta;
mod rows;
pub mod stored;
mod summary;
mod zstd_context;

/// The filter of a block, read from its stored bytes.
pub use bucksaw_columns::Filter as BlockFilter;

pub use attribute_column::{decode_attributes, encode_attributes};
pub use block::{Block, BlockBuilder, ColumnarBlock, StreamSlice};
pub use chunk::{Chunk, lines_end};
pub use codec::Codec;
pub use error::{Damage, OpenError, ReadError};
pub use file_header::FileHeader;
pub use frame::{Frame, FrameError, FrameHeader, FrameKind};
pub use health::{Health, RecordLoss};
pub use record_block::{RecordBlock, RecordMap, RecordPart};
pub use row_meta::RowMeta;
pub use rows::{IdRun, Rows};
pub use summary::RecordSummary;
