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

mod automaton;
mod row_set;
mod boundaries;
mod tokeniser;
mod decimal;
mod decoded_column;
mod dictionary;
mod tree_encoder;
mod gram_filter;
mod fixed_width;
mod layout_groups;
mod hash;
mod literal_prefix;
mod needle_occurrences;
mod codes;
mod suffixed_values;
mod raw_search;
mod column_links;
mod meta_reader;
mod number_planes;
mod numeric;
mod column_block;
mod encoder;
mod partition;
mod zstd_sample;
mod value_source;
mod automaton_run;
mod column_search;
mod fixed_width_format;
#[cfg(test)]
mod tests;
mod column_tree;
mod values;
mod verify;
mod alignments;
mod materialise;
mod work_budget;
mod tree_writer;

pub use automaton::{Automaton, Transition};
pub use row_set::{Bitmap, RowSet};
pub use gram_filter::Filter;
pub use column_block::ColumnBlock;
pub use encoder::{Encoder, EncodedText, TextEncoding};
pub use column_search::Needle;
