//! Attributes: named values that belong to one record.
//!
//! A record with attributes is one text: the lines of the record, then the value of each attribute, an LF behind each.
//!
//! ```text
//!   payment declined␊        the line; may be several lines
//!   4bf92f3577b34da6␊        the value of `trace_id`
//!   shop-7d9f␊               the value of `pod`
//! ```
//! So whatever copies, compresses or searches the text of records does the same with their attributes, and `^` and `$` of a
//! regex are the bounds of a value too. The names are not in the text: [`AttributeNames`] has them, once for all records with
//! the same names. A value with an LF inside takes several lines; [`AttributeShape`] then states how many.

mod names;
mod record_view;
mod rows;

pub use names::{AttributeNames, InvalidAttributes};
pub use record_view::{AttributeShape, RecordView};
pub use rows::RowAttributes;
