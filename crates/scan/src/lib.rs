//! Scanning: bytes in, matches out. A filter expression is compiled to a [`Plan`] once per query. Binding it to the labels of
//! a stream gives a [`BoundPlan`], which finds the matching records of chunks of text and of blocks.
//!
//! Text and regexes are searched for in a whole chunk at once, not record by record: the occurrence is found first, then the
//! record around it. The terms of an expression are cursors that skip ahead of each other.
//!
//! [`BoundPlan::match_rows`] searches a [block](bucksaw_search::SearchBlock) whose text is not in memory, and builds only the
//! rows that the block cannot decide itself. [`BoundPlan::may_match`] tests the filter of a block before it is opened.
//!
//! A filter matches a record if `grep` in the C locale matches it when given that record alone:
//!
//! - Text occurs byte for byte; with `i`, ASCII letters match in either case.
//! - A regex has the syntax of the `regex` crate over bytes, with Unicode off: `.` is any byte but LF, `\w` is ASCII, and `i`
//!   applies to ASCII letters. `(?u)` turns Unicode on. `^` and `$` are the bounds of the lines of a record. CR is an ordinary
//!   byte. No match spans two records.
//! - Text and regexes match in the line of a record or in the value of an attribute; a test of `_line` in the line only.
//! - A field is a label of the stream if the stream has one of that name, otherwise an attribute of the record, otherwise it is
//!   read from its line: see [`fields`]. In the regex of a field, `^` and `$` are the bounds of the value. `!=` and `!~` are `NOT` of `=` and `=~`:
//!   they match records without the field too. `<`, `<=`, `>` and `>=` match only values of the kind of the
//!   [limit](bucksaw_record::expr::Limit): decimal numbers, which compare exactly, durations or sizes.
//! - A level is that of [`level`], which histograms count by.
//!
//! The crate uses no files, threads or clocks: `query` decides what is scanned, where, and for how long.
//!
//! ```
//! use std::ops::ControlFlow;
//! use bucksaw_record::{Expr, Id, Labels};
//! use bucksaw_scan::{MatchedRecord, Plan};
//! use bucksaw_segment::{Chunk, Rows};
//!
//! let plan = Plan::compile(&Expr::parse(b"app=web /time(d )?out/ level!=debug").unwrap()).unwrap();
//! let text = b"level=info ok\nlevel=warn timeout\nlevel=debug timed out\n";
//! let (labels, mut rows) = (Labels::parse("app=web").unwrap(), Rows::default());
//! rows.push_run(Id::MIN, 3);
//! let chunk = Chunk { labels: &labels, rows: rows.into(), text };
//!
//! let mut bound = plan.bind(&labels);
//! assert_eq!(bound.count(&chunk, &|| false), 1);
//! bound.find(&chunk, &|| false, &mut |found| {
//!     assert_eq!(found, MatchedRecord { row: 1, start: 14, end: 32 });
//!     ControlFlow::Continue(())
//! });
//! ```
#![deny(clippy::indexing_slicing)]

mod automaton;
mod bound_plan;
mod candidate_rows;
mod column_regex;
mod cursor;
mod error;
mod field_term;
pub mod fields;
mod level_term;
mod line_regex;
mod line_term;
mod literal_beside_classes;
mod plan;
mod plan_node;
mod record_boundaries;
mod regex_engine;
mod regex_term;
mod required_literals;
mod search_costs;
#[cfg(test)]
mod tests;
mod text_term;
mod trim_repetitions;

pub use bound_plan::{BoundPlan, MatchedRecord, Matcher};
pub use bucksaw_record::level::{self, Level};
pub use error::CompileError;
pub use plan::Plan;
pub use regex_engine::{MEMORY_BYTES_MAX, limit_memory};
pub use regex_term::required_texts;
pub use search_costs::SearchCosts;
