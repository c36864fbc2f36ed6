//! Whole nodes of simulated clusters.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by a panic")]

mod losses;
mod town;
