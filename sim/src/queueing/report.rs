//! The table of predictions and measurements.

use std::fmt;
use std::time::Duration;

use super::figures::QueueingFigures;
use super::load::QueueingLoad;

/// A load with its predictions and, if it was run, its measurement.
#[derive(Clone, Copy, Debug)]
pub struct QueueingReport {
    load: QueueingLoad,
    plan: Option<QueueingFigures>,
    lease: Option<QueueingFigures>,
    measured: Option<QueueingFigures>,
}

impl QueueingReport {
    /// The columns of [`Display`](fmt::Display): a figure, both predictions, the measurement, and their errors in percent.
    pub const HEADER: &str =
        "nodes,utilisation,figure,plan formulas,lease formulas,measured,plan error %,lease error %";

    /// The predictions for a load. `waiting` and `uncommitted` are segments, times are seconds; `in vain` is rounds over all queues
    /// per gathered segment, `empty fetches` a share of the fetches, `consumed` bytes fetched per byte accepted.
    #[must_use]
    pub fn predict(load: QueueingLoad) -> Self {
        Self { load, plan: load.plan_formulas(), lease: load.lease_formulas(), measured: None }
    }

    /// The same with the measurement of a simulated cluster. It lasts for `window` of simulated time, or until `segments` segments
    /// have arrived, if that is longer.
    #[must_use]
    pub fn measure(self, seed: u64, window: Duration, segments: u32) -> Self {
        Self { measured: Some(self.load.measure(seed, window, segments)), ..self }
    }

    /// The relative error of the figure with this index by the formulas of leases; `None` if it was not measured.
    #[cfg(test)]
    pub(super) fn lease_error(&self, figure: usize) -> Option<f64> {
        relative_error(value(self.lease, figure), value(self.measured, figure))
    }
}

fn value(figures: Option<QueueingFigures>, index: usize) -> Option<f64> {
    figures.and_then(|figures| figures.values().get(index).copied())
}

fn relative_error(predicted: Option<f64>, measured: Option<f64>) -> Option<f64> {
    Some(predicted? / measured? - 1.0).filter(|error| error.is_finite())
}

impl fmt::Display for QueueingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in QueueingFigures::NAMES.iter().enumerate() {
            let [plan, lease, measured] = [self.plan, self.lease, self.measured].map(|figures| value(figures, index));
            let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
            let error = |predicted: Option<f64>| {
                relative_error(predicted, measured).map_or(String::new(), |error| format!("{:+.1}", error * 100.0))
            };
            let QueueingLoad { nodes, utilisation } = self.load;
            let (plan_error, lease_error) = (error(plan), error(lease));
            let [plan, lease, measured] = [plan, lease, measured].map(number);
            let end = if index + 1 < QueueingFigures::NAMES.len() { "\n" } else { "" };
            write!(f, "{nodes},{utilisation},{name},{plan},{lease},{measured},{plan_error},{lease_error}{end}")?;
        }
        Ok(())
    }
}
