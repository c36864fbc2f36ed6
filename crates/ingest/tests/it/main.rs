//! Messages of other versions about fetching segments.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod versions;
