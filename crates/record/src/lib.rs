//! The parts of a log record: an opaque byte string, a time, the labels of its stream, and its own attributes.
//!
//! Contains the [`Id`], the [`Labels`], the [`AttributeNames`], times, the splitting of byte streams into lines, the rule for the level of a record,
//! and the syntax of filter expressions. Everything is pure: no I/O, no clock, no async. The file formats are in `segment`, matching in `scan`.
//!
//! ```
//! use bucksaw_record::{Id, Labels, Millis, Producer};
//! let id = Id::new(Millis(1_700_000_000_000), Producer::new(7), 0);
//! assert_eq!(id.to_string().parse::<Id>().unwrap(), id);
//! assert_eq!(Labels::parse("app=web,host=a1").unwrap().get("app"), Some("web"));
//! ```
#![deny(clippy::indexing_slicing)]

mod attributes;
pub mod expr;
mod flags;
mod id;
mod id_allocator;
mod key;
mod label_scope;
mod labels;
pub mod level;
mod line_splitter;
mod millis;
pub mod time;

pub use attributes::{AttributeNames, AttributeShape, InvalidAttributes, RecordView, RowAttributes};
pub use expr::Expr;
pub use flags::Flags;
pub use id::{Id, InvalidId, Producer};
pub use id_allocator::IdAllocator;
pub use key::key_time;
pub use label_scope::LabelScope;
pub use labels::{InvalidLabels, Labels};
pub use level::Level;
pub use line_splitter::{LineSplitter, SplitLines, SplitRemainder};
pub use millis::Millis;
