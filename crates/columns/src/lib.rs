//! A codec for blocks of lines that are alike, as logs are: lines are cut into tokens, tokens become typed columns, and a
//! search asks the columns, without building lines.
//!
//! ```text
//!   line            2026-11-20 23:10:42 WARN  [pool-7] took 1210 ms for "GET /a?b=c"
//!   its layout      _ _ _  [_] _ _ _ _ "_"                   gaps between tokens; the same for many lines
//!   its table       a row for each such line, a column for each token:
//!                     2026-11-20   the same in all rows: part of the layout
//!                     23:10:42     digits at fixed places: a number, as the difference from the row before
//!                     WARN         few distinct values: a dictionary and a byte a row
//!                     1210         a number
//!                     GET /a?b=c   text, cut again where its values have layouts in common
//! ```
//! No token is looked at for what it means: words, numbers and names are treated alike, and what becomes of a column
//! follows from its values alone. That a column says the same as another of its table, or follows from it, is found out
//! and not said again. All that is left is packed with zstd, in frames that are unpacked alone.
//!
//! The text comes back byte for byte, whatever it was; [`Encoder::encode`] looks before it gives the columns away, and
//! gives none where zstd alone packs better. [`Filter`] tells of most texts that a block cannot contain them, without
//! opening it. `docs/adr/columns.md` says what this rests on.
//!
//! What it does not do: no file, no checksum, no record and no id: `segment` keeps blocks, `scan` asks them.

mod alignments;
mod automaton;
mod automaton_run;
mod boundaries;
mod codes;
mod column_block;
mod column_links;
mod column_search;
mod column_tree;
mod decimal;
mod decoded_column;
mod dictionary;
mod encoder;
mod fixed_width;
mod fixed_width_format;
mod gram_filter;
mod hash;
mod layout_groups;
mod literal_prefix;
mod materialise;
mod meta_reader;
mod needle_occurrences;
mod number_planes;
mod numeric;
mod partition;
mod raw_search;
mod row_set;
mod suffixed_values;
#[cfg(test)]
mod tests;
mod tokeniser;
mod tree_encoder;
mod tree_writer;
mod value_source;
mod values;
mod verify;
mod work_budget;
mod zstd_sample;

pub use automaton::{Automaton, Transition};
pub use column_block::ColumnBlock;
pub use column_search::Needle;
pub use encoder::{EncodedText, Encoder, TextEncoding};
pub use gram_filter::Filter;
pub use row_set::{Bitmap, RowSet};
