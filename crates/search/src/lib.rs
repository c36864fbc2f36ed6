//! The interface between `scan`, which searches blocks of lines, and the codecs that encode them.
//!
//! [`SearchBlock`] is what a codec implements. [`Needle`] and [`Automaton`] are what `scan` compiles once per query and
//! searches every block with; [`RowSet`] is the result.
//!
//! ```
//! use std::ops::ControlFlow;
//! use bucksaw_search::{CancelPoll, Needle, RowSet, SearchBlock};
//!
//! struct Lines(Vec<&'static str>);
//!
//! impl SearchBlock for Lines {
//!     fn row_count(&self) -> usize {
//!         self.0.len()
//!     }
//!
//!     fn visit_rows(
//!         &self,
//!         rows: impl Iterator<Item = usize>,
//!         visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
//!     ) -> Option<()> {
//!         for row in rows {
//!             if visit(self.0.get(row)?.as_bytes()).is_break() {
//!                 break;
//!             }
//!         }
//!         Some(())
//!     }
//! }
//!
//! let block = Lines(vec!["GET / 200\n", "GET /x 404\n"]);
//! let rows = block.find(&Needle::new(b"404", false), &CancelPoll::never()).unwrap();
//! assert!(!rows.contains(0) && rows.contains(1));
//! ```

mod ascii_set;
mod automaton;
mod cancel_poll;
mod layout;
mod needle;
mod row_set;
mod search_block;

pub use ascii_set::AsciiSet;
pub use automaton::{Automaton, DEAD, MATCHED, Transition};
pub use cancel_poll::CancelPoll;
pub use layout::{LayoutOffset, LayoutPart, LayoutReader, TestedText};
pub use needle::Needle;
pub use row_set::{Bitmap, RowSet};
pub use search_block::{RowsByLayout, SearchBlock, SkipFilter};
