//! What nodes of other versions say when segments are handed over.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod versions;
