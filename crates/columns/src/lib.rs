//! A codec for blocks of similar lines, such as logs. Lines are tokenised, and tokens become typed columns. A search
//! runs on the columns without building lines.
//!
//! ```text
//!   line            2026-11-20 23:10:42 WARN  [pool-7] took 1210 ms for "GET /a?b=c"
//!   layout          _ _ _  [_] _ _ _ _ "_"                   the delimiters; the same for many lines
//!   table           a row for each line of the layout, a column for each token:
//!                     2026-11-20   constant: part of the layout
//!                     23:10:42     fixed width: an integer, as a delta
//!                     WARN         few distinct values: a dictionary and one byte per row
//!                     1210         an integer
//!                     GET /a?b=c   text, tokenised again where its values share layouts
//! ```
//! Tokens are not classified by meaning. The encoding of a column follows from its values alone. A column that equals
//! another one of its table, or is a function of it, is stored as a reference. What remains is packed with zstd in frames
//! that are unpacked independently.
//!
//! Any text round-trips byte for byte: [`Encoder::encode`] compares the columns with the text, and uses zstd alone where that
//! packs better. [`Filter`] excludes most texts that a block does not contain without opening the block. A [`ColumnBlock`] is
//! searched by [`bucksaw_search::SearchBlock`]. `docs/adr/columns.md` gives the reasons.
//!
//! The modules depend on each other downwards only: `encode` and `search` on `decode`, `encode` on `filter`.
//!
//! The crate uses no files, checksums, records or ids: `segment` stores blocks, `scan` searches them.

mod decimal;
mod decode;
mod encode;
mod filter;
mod fixed_width;
mod format;
mod search;
mod search_work;
#[cfg(test)]
mod tests;

pub use decode::column_block::ColumnBlock;
pub use encode::encoder::{EncodedText, Encoder, TextEncoding};
pub use encode::values::LineClass;
pub use filter::Filter;
