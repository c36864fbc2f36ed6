//! Bytes on disk: both segment formats, their codecs, their invariants, their verification.
//!
//! A *queue segment* ([`queue`]) is what ingest appends to: frames of whole chunks of lines, each with a checksum, in
//! the order of arrival. A *store segment* ([`store`]) is what the store keeps: immutable blocks of records in the order
//! of their ids, compressed, with a footer that says what each block holds. Both yield [`Chunk`]s: records of one stream
//! with their text in one piece, which is what a search wants.
//!
//! `docs/format.md` draws both; the numbers there are compared with the constants here by a test.
//!
//! What it does not do: no thread, no clock, no decision about when a segment is made, moved or removed. Those are
//! `ingest`'s and `store`'s.
#![deny(clippy::indexing_slicing)]

mod block;
mod chunk;
mod codec;
mod error;
mod frame;
pub mod health;

pub mod queue;
mod row_meta;
mod rows;
pub mod stored;
mod summary;
mod varint;
mod zstd_context;

/// The filter of a block, read from its stored bytes.
pub use bucksaw_columns::Filter as BlockFilter;

pub use block::{Block, BlockBuilder, ColumnarBlock, StreamSlice};
pub use chunk::Chunk;
pub use codec::Codec;
pub use error::{Damage, OpenError, ReadError};
pub use frame::{Frame, FrameError, FrameHeader, FrameKind};
pub use health::{Health, RecordLoss};
pub use row_meta::RowMeta;
pub use rows::{IdRun, Rows};
pub use summary::RecordSummary;
