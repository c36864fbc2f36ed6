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
mod bits;
mod borders;
mod cut;
mod decimal;
mod decode;
mod dictionary;
mod encode;
mod filter;
mod fixed;
mod groups;
mod hash;
mod head;
mod hits;
mod ids;
mod join;
mod lines;
mod link;
mod meta;
mod numbers;
mod numeric;
mod open;
mod pack;
mod parting;
mod plain;
mod rebuild;
mod run;
mod search;
mod spell;
#[cfg(test)]
mod tests;
mod tree;
mod values;
mod verify;
mod ways;
mod weave;
mod work;
mod write;

pub use automaton::{Automaton, Step};
pub use bits::{Bits, Rows};
pub use filter::Filter;
pub use open::Block;
pub use pack::{Encoder, Packed, Text};
pub use search::Needle;
