//! The type of a distribution, what can be read from it, and the operations that make new ones.

use std::fmt;

use super::lattice::{Lattice, SECONDS_MAX, half_step, points};
use crate::number::{non_negative, positive};

/// Masses of a geometric sum below this are left out.
const TAIL_MASS_MIN: f64 = 1e-13;

/// Why a distribution cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// A time is negative, not a number, or above [`SECONDS_MAX`].
    #[error("a time must be a number of seconds from 0 to 100000")]
    Seconds,
    /// A coefficient of variation, weight or factor is negative, infinite or not a number.
    #[error("a variation, weight or factor must be a finite number of at least 0")]
    Factor,
    /// There is no value, or no weight above zero.
    #[error("a distribution needs at least one value with a weight above 0")]
    Empty,
    /// The lower bound is above the upper one.
    #[error("the lower bound is above the upper one")]
    Bounds,
}

/// A distribution of times in seconds, from 0 to [`SECONDS_MAX`].
///
/// It has probabilities at exact zero and at 64 points per factor 10 from 100 ns to 100,000 s, so two points differ by 3.7 %.
/// Each operation keeps the mean exactly, except [`slowest_of`](Self::slowest_of) and its relatives (0.1 %), and except mass
/// above [`SECONDS_MAX`], which counts as that time. The second moment is too large by at most 0.033 % for each operation, if
/// the operands are of similar size.
/// Quantiles are exact to 5.5 % for a constant and typically to 0.5 % for a smooth distribution.
#[derive(Clone, PartialEq)]
pub struct Distribution {
    lattice: Lattice,
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Distribution");
        debug.field("mean", &self.mean()).field("variation", &self.variation()).finish_non_exhaustive()
    }
}

impl Distribution {
    /// The distribution with the shares of `lattice`, whose masses need not sum up to 1.
    pub(super) fn from_lattice(mut lattice: Lattice) -> Self {
        lattice.normalise();
        Self { lattice }
    }

    /// The distribution of values with weights that need not sum up to 1. Invalid times count as zero.
    pub(crate) fn from_weighted(values: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut lattice = Lattice::empty();
        values.for_each(|(seconds, weight)| lattice.add(seconds, weight));
        Self::from_lattice(lattice)
    }

    /// Times with their probabilities, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lattice.iter().filter(|(_, mass)| *mass > 0.0)
    }

    /// The mean in seconds.
    pub fn mean(&self) -> f64 {
        self.iter().map(|(seconds, mass)| seconds * mass).sum()
    }

    /// The mean of the squared time, in square seconds.
    pub fn second_moment(&self) -> f64 {
        self.iter().map(|(seconds, mass)| seconds * seconds * mass).sum()
    }

    /// The coefficient of variation: standard deviation divided by mean; 0 if the mean is 0.
    pub fn variation(&self) -> f64 {
        let mean = self.mean();
        // In this order, so that neither a tiny mean nor a tiny mass loses the result.
        let squares: f64 = self.iter().map(|(seconds, mass)| mass * (seconds / mean) * (seconds / mean)).sum();
        if mean > 0.0 { (squares - 1.0).clamp(0.0, f64::MAX).sqrt() } else { 0.0 }
    }

    /// The time in seconds that is not exceeded with the given probability: 0.99 for the 99th percentile.
    ///
    /// The mass of a point is spread evenly, on a logarithmic scale, from half of the way to the point before to half of the way
    /// to the next one. A probability outside of 0 to 1 counts as the nearer of both, one that is not a number as 1.
    pub fn quantile(&self, probability: f64) -> f64 {
        let probability = if probability.is_nan() { 1.0 } else { probability.clamp(0.0, 1.0) };
        let (mut below, mut last) = (0.0, 0.0);
        for (seconds, mass) in self.iter() {
            if probability <= below + mass {
                let share = ((probability - below) / mass).clamp(0.0, 1.0);
                return (seconds * half_step().powf(2.0 * share - 1.0)).min(SECONDS_MAX);
            }
            below += mass;
            last = seconds * half_step();
        }
        last.min(SECONDS_MAX)
    }

    /// The probability that the time exceeds `seconds`, with the same spread of masses as [`quantile`](Self::quantile).
    /// It is 1 for a negative number and for what is not a number.
    pub fn tail(&self, seconds: f64) -> f64 {
        if seconds.is_nan() || seconds < 0.0 {
            return 1.0;
        }
        let half = half_step();
        let above = self.iter().filter(|(point, _)| *point > 0.0).map(|(point, mass)| {
            let (lower, upper) = (point / half, point * half);
            if seconds <= lower {
                mass
            } else if seconds >= upper {
                0.0
            } else {
                mass * (upper / seconds).ln() / (upper / lower).ln()
            }
        });
        above.sum::<f64>().clamp(0.0, 1.0)
    }

    /// The time that is a random one of `parts`, chosen with a probability in proportion to its weight.
    ///
    /// # Errors
    ///
    /// A weight is negative or not finite, or none is above zero.
    pub fn mixture(parts: &[(f64, &Self)]) -> Result<Self, DistributionError> {
        // Divided by the largest one, so that no sum of weights is infinite.
        let largest = parts.iter().map(|(weight, _)| *weight).fold(0.0, f64::max);
        let mut lattice = Lattice::empty();
        for (weight, part) in parts {
            let weight = non_negative(*weight).ok_or(DistributionError::Factor)?;
            lattice.add_all(&part.lattice, if largest > 0.0 { weight / largest } else { 0.0 });
        }
        positive(largest).ok_or(DistributionError::Empty)?;
        Ok(Self::from_lattice(lattice))
    }

    /// The sum of this time and an independent other one: the convolution of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::from_lattice(self.lattice.convolve(&other.lattice))
    }

    /// The slowest of `count` independent times of this distribution: its distribution function to the power `count`.
    /// The slowest of none is zero.
    #[must_use]
    pub fn slowest_of(&self, count: u32) -> Self {
        Self::from_lattice(Lattice::from_cumulative(self.lattice.cumulative().map(|sum| sum.powf(f64::from(count)))))
    }

    /// The slowest of independent times, one of each distribution: the product of their distribution functions.
    /// The slowest of none is zero.
    pub fn slowest(parts: &[Self]) -> Self {
        Self::combined(parts, |a, b| a * b)
    }

    /// The slowest of times that depend on each other as strongly as possible: if one is at its 90th percentile, all are.
    /// The distribution function is the least one of the parts. The slowest of none is zero.
    pub fn slowest_correlated(parts: &[Self]) -> Self {
        Self::combined(parts, f64::min)
    }

    fn combined(parts: &[Self], combine: impl Fn(f64, f64) -> f64) -> Self {
        let mut cumulative = vec![1.0; points().len()];
        for part in parts {
            cumulative
                .iter_mut()
                .zip(part.lattice.cumulative())
                .for_each(|(all, one)| *all = combine(*all, one.min(1.0)));
        }
        Self::from_lattice(Lattice::from_cumulative(cumulative.into_iter()))
    }

    /// This time multiplied by `factor`.
    ///
    /// # Errors
    ///
    /// The factor is negative or not finite.
    pub fn scaled(&self, factor: f64) -> Result<Self, DistributionError> {
        let factor = non_negative(factor).ok_or(DistributionError::Factor)?;
        Ok(Self::from_weighted(self.iter().map(|(seconds, mass)| (seconds * factor, mass))))
    }

    /// The rest of this time at a random moment within it: the equilibrium distribution, with the density `tail(t) / mean`.
    ///
    /// Source: Kleinrock, "Queueing Systems", volume 1, 1975, section 5.2. Its mean is `second_moment / (2 mean)`, exactly.
    /// The residual of zero is zero.
    #[must_use]
    pub fn residual(&self) -> Self {
        let mut lattice = Lattice::empty();
        // Between two points the tail is constant, so the mass of the cell is uniform: half of it belongs to each end.
        let cells = points().iter().zip(points().iter().skip(1));
        for ((a, b), below) in cells.zip(self.lattice.cumulative()) {
            let half = (1.0 - below).max(0.0) * (b - a) / 2.0;
            lattice.add(*a, half);
            lattice.add(*b, half);
        }
        Self::from_lattice(lattice)
    }

    /// The sum of a random number of independent times of this distribution: *n* of them with the probability
    /// `(1 − ratio) · ratio^n`. `None` if the ratio is not at least 0 and below 1.
    ///
    /// Partial sums of 1, 2, 4, 8, … terms follow from each other by two convolutions each, until the rest is below 1e-13.
    pub fn geometric_sum(&self, ratio: f64) -> Option<Self> {
        if !(0.0..1.0).contains(&ratio) {
            return None;
        }
        let mut power = Lattice::empty();
        power.add_all(&self.lattice, ratio);
        let mut sum = Lattice::empty();
        sum.add(0.0, 1.0);
        let mut rest = ratio;
        while rest > TAIL_MASS_MIN {
            let next = power.convolve(&sum);
            sum.add_all(&next, 1.0);
            power = power.convolve(&power);
            rest *= rest;
        }
        Some(Self::from_lattice(sum))
    }
}
