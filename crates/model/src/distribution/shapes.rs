//! Distributions of known shapes, and of given values.

use super::distribution::{Distribution, DistributionError};
use super::lattice::{Lattice, SECONDS_MAX};
use crate::number::non_negative;
use crate::special::normal_cdf;

/// A lognormal distribution with a smaller coefficient of variation is narrower than the grid, and counts as a constant.
const VARIATION_MIN: f64 = 0.01;

fn seconds(seconds: f64) -> Result<f64, DistributionError> {
    if (0.0..=SECONDS_MAX).contains(&seconds) { Ok(seconds) } else { Err(DistributionError::Seconds) }
}

impl Distribution {
    /// Always the same time.
    ///
    /// # Errors
    ///
    /// The time is out of its range.
    pub fn constant(value: f64) -> Result<Self, DistributionError> {
        let value = seconds(value)?;
        Ok(Self::from_weighted(std::iter::once((value, 1.0))))
    }

    /// The exponential distribution: P(X > t) = e^(−t/mean), the time between independent arrivals.
    ///
    /// # Errors
    ///
    /// The mean is out of its range.
    pub fn exponential(mean: f64) -> Result<Self, DistributionError> {
        let mean = seconds(mean)?;
        if mean == 0.0 {
            return Self::constant(0.0);
        }
        Ok(Self::from_lattice(Lattice::from_cdf(|t| -(-t / mean).exp_m1())))
    }

    /// The lognormal distribution with a mean and a coefficient of variation: the common shape of one mode of response times.
    ///
    /// A variation below 0.01 gives a constant, as the grid is coarser than that. Mass above [`SECONDS_MAX`] counts as that
    /// time, so a large mean with a large variation is understated.
    ///
    /// # Errors
    ///
    /// The mean is out of its range, or the variation is negative or not finite.
    pub fn lognormal(mean: f64, variation: f64) -> Result<Self, DistributionError> {
        let (mean, variation) = (seconds(mean)?, non_negative(variation).ok_or(DistributionError::Factor)?);
        if mean == 0.0 || variation < VARIATION_MIN {
            return Self::constant(mean);
        }
        // ln(1 + variation²), without an infinite square.
        let variance = if variation > 1e8 { 2.0 * variation.ln() } else { (variation * variation).ln_1p() };
        let (location, scale) = (mean.ln() - variance / 2.0, variance.sqrt());
        Ok(Self::from_lattice(Lattice::from_cdf(
            |t| if t > 0.0 { normal_cdf((t.ln() - location) / scale) } else { 0.0 },
        )))
    }

    /// The uniform distribution between two times.
    ///
    /// # Errors
    ///
    /// A bound is out of its range, or the lower one is above the upper one.
    pub fn uniform(lower: f64, upper: f64) -> Result<Self, DistributionError> {
        let (lower, upper) = (seconds(lower)?, seconds(upper)?);
        if lower > upper {
            return Err(DistributionError::Bounds);
        }
        if upper - lower <= lower * VARIATION_MIN {
            return Self::constant(lower + (upper - lower) / 2.0);
        }
        Ok(Self::from_lattice(Lattice::from_cdf(|t| ((t - lower) / (upper - lower)).clamp(0.0, 1.0))))
    }

    /// The distribution of measured values in seconds, each with the same weight.
    ///
    /// # Errors
    ///
    /// There is no value, or one is out of its range.
    pub fn from_values(values: &[f64]) -> Result<Self, DistributionError> {
        if values.is_empty() {
            return Err(DistributionError::Empty);
        }
        for value in values {
            seconds(*value)?;
        }
        Ok(Self::from_weighted(values.iter().map(|value| (*value, 1.0))))
    }
}
