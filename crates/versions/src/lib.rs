//! For tests: bytes as versions wrote them, and messages as the next version would write them.
//!
//! - [`Kept`] holds what is written today against files that are kept for ever, one for each kind of bytes and each version
//!   in which they changed. Who changes the bytes and not the version hears of it; what any version wrote is there to be read.
//! - [`later`] makes of a message one of a later minor version: with fields that nobody knows yet.
//! - [`at_once`] reads what waits for nothing.
//!
//! It belongs to no version of the program: nothing but tests uses it.

mod expect_ready;
mod hex;
mod golden;
mod unknown_fields;

pub use expect_ready::expect_ready;
pub use golden::GoldenFiles;
pub use unknown_fields::{FREE_FORM_KEYS, with_unknown_fields};
