//! The scan: bytes in, matches out. A filter expression becomes a [`Plan`], a plan meets the labels of a stream and
//! becomes a [`Bound`], and that finds the matching records of chunks of text.
//!
//! Text and regexes are searched for over a whole chunk at once, never record by record: a hit is found first, and then
//! the record around it. Searches of the parts of an expression are cursors that leap over each other.
//!
//! Where text is kept as columns, [`Bound::lines`] asks these, and builds only the lines of which they do not tell.
//! [`Bound::may_match`] asks the filter of a block before it is opened.
//!
//! What a filter means is what `grep` in the C locale means when it is given each record alone:
//!
//! - Text is contained byte for byte; with `i`, ASCII letters match in either case.
//! - A regex is of the `regex` syntax over bytes, with Unicode off (so `.` is any byte but LF, `\w` is ASCII, and `i` is
//!   about ASCII letters); `(?u)` turns it on. `^` and `$` are the bounds of the lines of a record. CR is a byte as any
//!   other. No match ever goes from one record into the next.
//! - A field is a label of the stream if there is one of that name, else it is read from the record: see [`fields`].
//!   In the regex of a field `^` and `$` are the bounds of the value. `!=` and `!~` are `NOT` of `=` and `=~`: they
//!   match records without the field too. `<`, `<=`, `>` and `>=` match only where the value is a finite decimal number.
//!
//! What it does not do: no file, no thread, no clock. `query` decides what is scanned, where and for how long.
//!
//! ```
//! use std::ops::ControlFlow;
//! use bucksaw_record::{Expr, Id, Labels};
//! use bucksaw_scan::{Found, Plan};
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
//!     assert_eq!(found, Found { row: 1, start: 14, end: 32 });
//!     ControlFlow::Continue(())
//! });
//! ```
#![deny(clippy::indexing_slicing)]

mod automaton;
mod bound_plan;
mod cancel_poll;
mod candidate_rows;
mod cursor;
mod error;
mod field_term;
pub mod fields;
pub mod level;
mod line_regex;
mod plan;
mod plan_node;
mod record_boundaries;
mod regex_engine;
mod regex_term;
mod required_literals;
#[cfg(test)]
mod tests;
mod text_term;

pub use bound_plan::{BoundPlan, MatchedRecord, Matcher};
pub use error::CompileError;
pub use level::Level;
pub use plan::Plan;
pub use regex_engine::{MEMORY_BYTES_MAX, limit_memory};
