//! Erasures: records that must be in no answer, and soon in no file.
//!
//! ```text
//!   request ──► <id>.json, synced ──► acknowledged: no answer and no merge has a matching record
//!                    │                     └ segments that may have some are read through a filter: FilteredSegment
//!                    └ maintenance: scan each segment ──► a match: rewrite it, scan the output ──► none: checked
//! ```
//! An erasure is a condition on the id, the stream and the text of a record ([`Erasure`]). It names no arrival, so all copies of a
//! record meet it or none does, on all nodes, whenever they arrive: a retry of a sender does not restore a record.
//!
//! Each open erasure has a number that rises in the order in which this process learned of it. A segment remembers in memory up
//! to which number it was checked; after a restart all segments that overlap an erasure are checked again. So a file that comes
//! back in any way, from another store, from the trash or by a power cut, is filtered at once and rewritten.
//!
//! Invariant: an erasure is acknowledged after its file is synced.
//! Invariant: a segment counts as checked only after a scan of its file found no match.

mod chunk_filter;
mod definition;
mod erasure_book;
mod erasure_set;
mod erasure_spread;
mod file;
mod filtered_segment;
mod progress;
mod sweep;
mod sweep_state;

pub use chunk_filter::RetainedRows;
pub use definition::{ERASURES_MAX, EXPR_BYTES_MAX, Erasure, InvalidErasure};
pub use erasure_book::{ErasureBook, ErasureError};
pub(crate) use erasure_set::ErasedCounts;
pub use erasure_set::ErasureSet;
pub use erasure_spread::{ERASURE_REPORT, ERASURES, ErasureSpread, MemberOutcome, MemberReport};
pub(crate) use file::{check as check_file, ids as file_ids, name as file_name};
pub(crate) use filtered_segment::{FilteredSegment, matching as matching_erasures};
pub use progress::{ErasureProgress, ErasureStatus, ReportedErasure};
