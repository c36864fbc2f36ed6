//! Distributions of non-negative times: probabilities on a fixed logarithmic grid, and their algebra.
//!
//! Percentiles of parts cannot be added to percentiles of a whole (Cockcroft, "Percentiles don't work", 2023). So the model
//! computes with whole distributions, and reads percentiles at the end.

#[expect(clippy::module_inception, reason = "the type of the module")]
mod distribution;
mod histogram;
mod lattice;
mod shapes;

pub use distribution::{Distribution, DistributionError};
pub use histogram::HistogramError;
pub use lattice::{SECONDS_MAX, SECONDS_MIN};

#[cfg(test)]
mod tests;
