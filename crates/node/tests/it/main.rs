//! Whole nodes of simulated clusters.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]

mod crowded;
mod losses;
mod memory_store;
mod test_cluster;
