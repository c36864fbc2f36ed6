//! The universal scalability law: throughput as a function of the number of nodes, cores or clients, fitted to measurements.

use crate::number::{non_negative, positive};

/// Most measurements of one fit.
const MEASUREMENTS_MAX: usize = 100_000;

/// Two-sided 95 % bounds of Student's t for 1 to 10 degrees of freedom.
const STUDENT_95: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// A symmetric matrix of three rows.
type Matrix = [[f64; 3]; 3];

/// Why measurements cannot be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScalabilityError {
    /// A number of workers is below 1, a throughput is not above 0, or a number is not finite.
    #[error("a measurement needs at least 1 worker and a throughput above 0")]
    Measurement,
    /// Measurements of fewer than two different numbers of workers, or more than 100,000 measurements.
    #[error("a fit needs measurements of at least 2 different numbers of workers, and at most 100000 measurements")]
    Count,
    /// No throughput of one worker above 0 fits.
    #[error("the measurements do not follow the law")]
    Fit,
}

/// The universal scalability law: `throughput(n) = one · n / (1 + contention (n − 1) + coherence n (n − 1))`.
///
/// Assumption: a share of the work is serial, and pairs of workers delay each other.
/// Source: Gunther, "Guerrilla Capacity Planning", 2007, chapters 4 to 6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalabilityLaw {
    /// Throughput of one worker, in the unit of the measurements.
    pub one: f64,
    /// Share of the work that is serial: σ. With coherence 0 it is Amdahl's law, with a limit of `one / contention`.
    pub contention: f64,
    /// Cost of consistency between each pair of workers: κ. Above 0 the throughput has a peak.
    pub coherence: f64,
}

impl ScalabilityLaw {
    /// Throughput of `workers` workers, in the unit of `one`. `None` if a number is negative or not finite.
    pub fn throughput(&self, workers: f64) -> Option<f64> {
        let workers = non_negative(workers)?;
        let (one, contention) = (non_negative(self.one)?, non_negative(self.contention)?);
        let others = workers - 1.0;
        let costs = 1.0 + contention * others + non_negative(self.coherence)? * workers * others;
        positive(costs).map(|costs| one * (workers / costs))
    }

    /// Throughput of `workers` workers divided by that of as many independent ones: 1 is perfect scaling. `None` as for
    /// [`throughput`](Self::throughput), or without workers.
    pub fn efficiency(&self, workers: f64) -> Option<f64> {
        let alone = positive(self.one)? * positive(workers)?;
        Some(self.throughput(workers)? / alone)
    }

    /// The number of workers with the highest throughput: `√((1 − contention) / coherence)`, at least 1. `None` if there is no
    /// peak, because the coherence is 0, or a number is invalid.
    pub fn peak(&self) -> Option<f64> {
        let coherence = positive(self.coherence)?;
        let contention = non_negative(self.contention)?;
        Some(((1.0 - contention).max(0.0) / coherence).sqrt().max(1.0))
    }
}

/// A fitted number with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number that fits best.
    pub value: f64,
    /// Lower and upper 95 % bound, the lower one at least 0; `None` with as few measurements as parameters.
    pub bounds: Option<(f64, f64)>,
}

/// A law that was fitted to measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalabilityFit {
    /// Throughput of one worker.
    pub one: Estimate,
    /// Serial share of the work, at least 0.
    pub contention: Estimate,
    /// Cost of each pair, at least 0. With two different numbers of workers it is 0 without bounds, as it cannot be seen.
    pub coherence: Estimate,
}

impl ScalabilityFit {
    /// Fits the law to measurements: pairs of a number of workers and a throughput.
    ///
    /// Least squares of the relative errors of `n / throughput`, which is linear in the parameters, so the result is exact and
    /// needs no start values. If a parameter would be negative it is 0, and the others are fitted again.
    ///
    /// The bounds are those of a linearised covariance: the covariance of the linear fit with all parameters, carried over to
    /// contention and coherence by their derivatives, times Student's t. They assume independent errors of equal relative
    /// size; measurements of one run are not independent.
    ///
    /// # Errors
    ///
    /// A measurement is invalid, there are too few different or too many, or the fit has no throughput of one worker.
    pub fn from_measurements(measurements: &[(f64, f64)]) -> Result<Self, ScalabilityError> {
        let is_valid = |(workers, throughput): &(f64, f64)| {
            workers.is_finite() && *workers >= 1.0 && throughput.is_finite() && *throughput > 0.0
        };
        if !measurements.iter().all(is_valid) {
            return Err(ScalabilityError::Measurement);
        }
        let mut different: Vec<f64> = measurements.iter().map(|(workers, _)| *workers).collect();
        different.sort_unstable_by(f64::total_cmp);
        different.dedup();
        if different.len() < 2 || measurements.len() > MEASUREMENTS_MAX {
            return Err(ScalabilityError::Count);
        }
        let regression = Regression::new(measurements);
        let with_coherence = different.len() > 2;
        let (used, parameters) = regression.best(with_coherence).ok_or(ScalabilityError::Fit)?;
        let (one, contention, coherence) = regression.law(parameters);
        if positive(one).is_none() || non_negative(contention).is_none() || non_negative(coherence).is_none() {
            return Err(ScalabilityError::Fit);
        }
        let used = if with_coherence { [true; 3] } else { used };
        let widths = regression.widths([true, true, with_coherence], parameters);
        let estimate = |value: f64, width: Option<f64>, is_used: bool| {
            let bounds = width.filter(|width| is_used && width.is_finite());
            Estimate { value, bounds: bounds.map(|width| ((value - width).max(0.0), value + width)) }
        };
        Ok(Self {
            one: estimate(one, widths.map(|[one, _, _]| one), true),
            contention: estimate(contention, widths.map(|[_, contention, _]| contention), true),
            coherence: estimate(coherence, widths.map(|[_, _, coherence]| coherence), used[2]),
        })
    }

    /// The law with the fitted values.
    pub fn law(&self) -> ScalabilityLaw {
        let Self { one, contention, coherence } = self;
        ScalabilityLaw { one: one.value, contention: contention.value, coherence: coherence.value }
    }
}

/// The linear problem: 1 = parameters · row for each measurement. Rows are scaled, so that no column is much larger.
struct Regression {
    workers_max: f64,
    throughput_max: f64,
    rows: Vec<[f64; 3]>,
}

impl Regression {
    fn new(measurements: &[(f64, f64)]) -> Self {
        let workers_max = measurements.iter().map(|(workers, _)| *workers).fold(1.0, f64::max);
        let throughput_max = measurements.iter().map(|(_, throughput)| *throughput).fold(0.0, f64::max);
        let row = |(workers, throughput): &(f64, f64)| {
            let (n, weight) = (workers / workers_max, throughput / throughput_max / (workers / workers_max));
            let others = (workers - 1.0) / workers_max;
            [weight, weight * others, weight * n * others]
        };
        Self { workers_max, throughput_max, rows: measurements.iter().map(row).collect() }
    }

    /// The law of the scaled parameters.
    fn law(&self, [a, b, c]: [f64; 3]) -> (f64, f64, f64) {
        let one = self.throughput_max / self.workers_max / a;
        (one, b / a / self.workers_max, c / a / self.workers_max / self.workers_max)
    }

    /// The parameters of least squares with only the `used` columns; the others are 0.
    fn fit(&self, used: [bool; 3]) -> Option<[f64; 3]> {
        let inverse = self.inverse(used)?;
        let sums = self.rows.iter().fold([0.0; 3], |[a, b, c], [x, y, z]| [a + x, b + y, c + z]);
        let product =
            |[a, b, c]: [f64; 3], used: bool| if used { a * sums[0] + b * sums[1] + c * sums[2] } else { 0.0 };
        Some([product(inverse[0], used[0]), product(inverse[1], used[1]), product(inverse[2], used[2])])
    }

    /// The inverse of the normal matrix of the used columns; 0 elsewhere. `None` if it has none.
    fn inverse(&self, used: [bool; 3]) -> Option<Matrix> {
        let mut m = [[0.0; 3]; 3];
        for row in &self.rows {
            for ((sums, x), use_row) in m.iter_mut().zip(row).zip(used) {
                for ((sum, y), use_column) in sums.iter_mut().zip(row).zip(used) {
                    *sum += if use_row && use_column { x * y } else { 0.0 };
                }
            }
        }
        for ((at, row), is_used) in m.iter_mut().enumerate().zip(used) {
            if let Some(diagonal) = row.get_mut(at).filter(|_| !is_used) {
                *diagonal = 1.0;
            }
        }
        let mut inverse = invert(m)?;
        for (row, use_row) in inverse.iter_mut().zip(used) {
            for (number, use_column) in row.iter_mut().zip(used) {
                *number = if use_row && use_column { *number } else { 0.0 };
            }
        }
        Some(inverse)
    }

    fn squares(&self, [a, b, c]: [f64; 3]) -> f64 {
        self.rows.iter().map(|[x, y, z]| (1.0 - a * x - b * y - c * z).powi(2)).sum()
    }

    /// The best fit of which no parameter is negative, with the columns that it uses.
    fn best(&self, with_coherence: bool) -> Option<([bool; 3], [f64; 3])> {
        let columns = [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
        let columns = columns.into_iter().filter(|used| with_coherence || !used[2]);
        let fits = columns.filter_map(|used| Some((used, self.fit(used)?)));
        let valid =
            fits.filter(|(_, parameters)| parameters.iter().all(|parameter| non_negative(*parameter).is_some()));
        valid.min_by(|(_, a), (_, b)| self.squares(*a).total_cmp(&self.squares(*b)))
    }

    /// Half of the width of the 95 % bounds of the law at `parameters`.
    fn widths(&self, used: [bool; 3], parameters: [f64; 3]) -> Option<[f64; 3]> {
        let freedom = self.rows.len().checked_sub(used.iter().filter(|used| **used).count())?;
        if freedom == 0 {
            return None;
        }
        let covariance = self.inverse(used)?;
        let variance = self.squares(self.fit(used)?) / freedom as f64;
        let [a, _, _] = parameters;
        let (one, contention, coherence) = self.law(parameters);
        // Derivatives of the law by the scaled parameters.
        let scale = 1.0 / a / self.workers_max;
        let gradients =
            [[-one / a, 0.0, 0.0], [-contention / a, scale, 0.0], [-coherence / a, 0.0, scale / self.workers_max]];
        let width = |gradient: [f64; 3]| {
            let rows = covariance.iter().zip(gradient);
            let form = rows.map(|(row, x)| x * row.iter().zip(gradient).map(|(m, y)| m * y).sum::<f64>()).sum::<f64>();
            student_95(freedom) * (variance * form.max(0.0)).sqrt()
        };
        Some(gradients.map(width))
    }
}

/// The inverse of a symmetric matrix, by its cofactors; `None` if it is nearly singular.
fn invert(m: Matrix) -> Option<Matrix> {
    let [[a, b, c], [_, d, e], [_, _, f]] = m;
    let (x, y, z) = (d * f - e * e, c * e - b * f, b * e - c * d);
    let determinant = a * x + b * y + c * z;
    let size = (a * d * f).abs();
    if !(determinant.is_finite() && determinant.abs() > size * 1e-14) {
        return None;
    }
    let inverse = [[x, y, z], [y, a * f - c * c, b * c - a * e], [z, b * c - a * e, a * d - b * b]];
    Some(inverse.map(|row| row.map(|number| number / determinant)))
}

/// The two-sided 95 % bound of Student's t; above 10 degrees of freedom by the expansion of Fisher and Cornish.
fn student_95(freedom: usize) -> f64 {
    let freedom = freedom.max(1);
    STUDENT_95.get(freedom - 1).copied().unwrap_or_else(|| {
        let freedom = freedom as f64;
        1.96 + 2.3723 / freedom + 2.8225 / (freedom * freedom)
    })
}

#[cfg(test)]
mod tests;
