//! What a log record is: an opaque byte string, a time, and the labels of the stream that it came in on.
//!
//! Here live the [`Id`] that carries the whole design, the [`Labels`] of a stream, the rules for times, the cutting of a
//! byte stream into lines, and the filter expression as people type it. All of it is pure: no I/O, no clock, no async.
//!
//! What it does not do: bytes on disk are `segment`'s, matching is `scan`'s.
//!
//! ```
//! use bucksaw_record::{Id, Labels, Millis, Producer};
//! let id = Id::new(Millis(1_700_000_000_000), Producer::new(7), 0);
//! assert_eq!(id.to_string().parse::<Id>().unwrap(), id);
//! assert_eq!(Labels::parse("app=web,host=a1").unwrap().get("app"), Some("web"));
//! ```
#![deny(clippy::indexing_slicing)]

pub mod expr;
mod flags;
mod id;
mod id_allocator;
mod key;
mod labels;
mod line_splitter;
mod millis;
pub mod time;

pub use expr::Expr;
pub use flags::Flags;
pub use id::{Id, InvalidId, Producer};
pub use id_allocator::IdAllocator;
pub use key::key_time;
pub use labels::{InvalidLabels, Labels};
pub use line_splitter::{LineSplitter, SplitLines, SplitRemainder};
pub use millis::Millis;
