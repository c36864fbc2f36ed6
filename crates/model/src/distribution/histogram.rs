//! Distributions from histograms with buckets, as Prometheus keeps them.

use super::distribution::Distribution;
use super::lattice::{Lattice, SECONDS_MAX};

/// Why a histogram gives no distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// There is not one count per bound.
    #[error("a histogram needs as many counts as bounds")]
    Lengths,
    /// The bounds do not rise, or one is negative, not a number, or infinite before the last one.
    #[error("the bounds of a histogram must rise from 0, and only the last one may be infinite")]
    Bounds,
    /// A count is negative, infinite or not a number, or cumulative counts fall.
    #[error("the counts of a histogram must be finite and at least 0, and cumulative counts must not fall")]
    Counts,
    /// All counts are zero, or only the infinite bucket has any.
    #[error("a histogram needs a count above 0 in a finite bucket")]
    Empty,
}

/// The distribution function within one bucket, at a time above its lower bound and below its upper one.
fn share_below(seconds: f64, lower: f64, upper: f64) -> f64 {
    // A bucket from zero has no lower bound on a logarithmic scale.
    if lower > 0.0 { (seconds.ln() - lower.ln()) / (upper.ln() - lower.ln()) } else { seconds / upper }
}

impl Distribution {
    /// The distribution of a histogram: upper bounds of the buckets in seconds, and the count of each bucket by itself.
    ///
    /// Within a bucket the mass is uniform on a logarithmic scale, in the one that begins at zero on a linear scale. The bucket
    /// with the bound `+Inf` counts as the largest finite bound, as in `histogram_quantile` of Prometheus, so a tail beyond the
    /// last bound is understated. A quantile is exact to the width of its bucket.
    ///
    /// # Errors
    ///
    /// Bounds or counts are invalid, or there is no count.
    pub fn from_histogram(bounds: &[f64], counts: &[f64]) -> Result<Self, HistogramError> {
        if bounds.len() != counts.len() {
            return Err(HistogramError::Lengths);
        }
        let last = bounds.len().saturating_sub(1);
        let mut lower = 0.0;
        let mut buckets = Vec::with_capacity(bounds.len());
        let mut infinite = 0.0;
        for (at, (bound, count)) in bounds.iter().zip(counts).enumerate() {
            let rises = if at == 0 { *bound >= 0.0 } else { *bound > lower };
            if !rises || (bound.is_infinite() && at != last) {
                return Err(HistogramError::Bounds);
            }
            if !count.is_finite() || *count < 0.0 {
                return Err(HistogramError::Counts);
            }
            if bound.is_infinite() {
                infinite = *count;
            } else {
                buckets.push((lower, *bound, *count));
                lower = *bound;
            }
        }
        // Divided by the largest one, so that their sum is finite.
        let largest = buckets.iter().map(|(_, _, count)| *count).fold(0.0, f64::max);
        if largest == 0.0 {
            return Err(HistogramError::Empty);
        }
        buckets.push((lower, lower, infinite));
        let largest = largest.max(infinite);
        let mut lattice = Lattice::empty();
        for (lower, upper, count) in buckets.into_iter().filter(|(_, _, count)| *count > 0.0) {
            if lower >= SECONDS_MAX || upper <= lower {
                lattice.add(lower.min(SECONDS_MAX), count / largest);
            } else {
                lattice.add_all(&bucket(lower, upper), count / largest);
            }
        }
        Ok(Self::from_lattice(lattice))
    }

    /// As [`from_histogram`](Self::from_histogram), of cumulative counts: those of the series `…_bucket`, or their increases.
    ///
    /// # Errors
    ///
    /// Bounds or counts are invalid, counts fall, or there is no count.
    pub fn from_cumulative_histogram(bounds: &[f64], cumulative: &[f64]) -> Result<Self, HistogramError> {
        let before = std::iter::once(&0.0).chain(cumulative);
        let counts: Vec<f64> = cumulative.iter().zip(before).map(|(count, before)| count - before).collect();
        Self::from_histogram(bounds, &counts)
    }
}

/// The masses of one bucket, which sum up to 1.
fn bucket(lower: f64, upper: f64) -> Lattice {
    Lattice::from_cdf(|t| {
        if t <= lower {
            0.0
        } else if t >= upper {
            1.0
        } else {
            share_below(t, lower, upper).clamp(0.0, 1.0)
        }
    })
}
