//! Measured times, as a histogram: a disk that is mostly fast and stalls at times has no common shape.

use bucksaw_model::Distribution;
use serde::{Deserialize, Serialize};

use crate::segment_rotation::SegmentedCommits;

/// The least bound of a histogram of single times, in seconds. Each further one is larger by a factor of √2, by which quantiles are
/// exact to some percent.
const LEAST_BOUND_SECONDS: f64 = 20e-6;

/// The share of a time that is left at least when a part of it is taken away, whatever the part is.
const LEAST_SHARE: f64 = 0.1;

/// A stall takes at least this many times the median: the disk does something else first.
const STALL_FACTOR: f64 = 4.0;

/// Times of one kind, and their mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeHistogram {
    /// The mean in seconds.
    pub mean_seconds: f64,
    /// Upper bounds of the buckets in seconds, rising and finite.
    pub bounds: Vec<f64>,
    /// The number of times in each bucket.
    pub counts: Vec<f64>,
}

impl TimeHistogram {
    /// From a histogram whose last bound may be infinite, and the sum of all times. Times above the last finite bound count as this
    /// bound. `None` if it is empty.
    #[must_use]
    pub fn from_histogram(bounds: &[f64], counts: &[f64], sum_seconds: f64) -> Option<Self> {
        let finite = bounds.iter().filter(|bound| bound.is_finite()).count();
        let (bounds, mut of_bounds) = (bounds.get(..finite)?.to_vec(), counts.get(..finite)?.to_vec());
        *of_bounds.last_mut()? += counts.get(finite..)?.iter().sum::<f64>();
        let count: f64 = of_bounds.iter().sum();
        (count > 0.0).then(|| Self { mean_seconds: sum_seconds / count, bounds, counts: of_bounds })
    }

    /// From single times in seconds. `None` if there is none, or one is not finite.
    #[must_use]
    pub fn of_times(times: &[f64]) -> Option<Self> {
        let shortest = times.iter().copied().reduce(f64::min)?;
        let longest = times.iter().copied().reduce(f64::max).filter(|longest| longest.is_finite())?;
        let mut bounds = vec![LEAST_BOUND_SECONDS];
        while let Some(last) = bounds.last().copied().filter(|last| *last < longest) {
            bounds.push(last * std::f64::consts::SQRT_2);
        }
        // The first bound is that below the shortest time.
        let unused = bounds.partition_point(|bound| *bound < shortest).saturating_sub(1);
        bounds.drain(..unused);
        let mut counts = vec![0.0; bounds.len()];
        for time in times {
            *counts.get_mut(bounds.partition_point(|bound| bound < time))? += 1.0;
        }
        Some(Self { mean_seconds: times.iter().sum::<f64>() / times.len() as f64, bounds, counts })
    }

    /// The times without a part of this many seconds: each is shorter by it, or by nine tenths if the part is more than that.
    #[must_use]
    pub fn without(&self, seconds: f64) -> Self {
        let shorter = |time: f64| (time - seconds).max(time * LEAST_SHARE);
        let bounds = self.bounds.iter().map(|bound| shorter(*bound)).collect();
        Self { mean_seconds: shorter(self.mean_seconds), bounds, counts: self.counts.clone() }
    }

    /// The mean seconds that a request of this size waits for its group commit, with this many per second whose data takes no time, if these
    /// are the times of syncs; `None` if the rate or the times are none.
    #[must_use]
    pub fn commit_wait(&self, requests_per_second: f64, request_bytes: f64) -> Option<f64> {
        let commits = SegmentedCommits { requests_per_second, request_bytes, write_seconds: 0.0 };
        Some(commits.group_commit(&self.distribution()?)?.ack()?.mean())
    }

    /// The distribution, whose mean is the measured one.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        self.distribution_with_stalls(1.0)
    }

    /// The distribution with this share of the stalls, from 0 to 1.
    pub(crate) fn distribution_with_stalls(&self, share: f64) -> Option<Distribution> {
        let of_buckets = Distribution::from_histogram(&self.bounds, &self.counts).ok()?;
        let scale = self.mean_seconds / of_buckets.mean();
        let (ordinary, stalls) = self.counts.split_at(self.stalls_from());
        let sum = |counts: &[f64]| counts.iter().sum::<f64>();
        let more = 1.0 + sum(stalls) * (1.0 - share) / sum(ordinary);
        let counts: Vec<f64> =
            ordinary.iter().map(|count| count * more).chain(stalls.iter().map(|count| count * share)).collect();
        Distribution::from_histogram(&self.bounds, &counts).ok()?.scaled(scale).ok()
    }

    /// The number of buckets before those of stalls.
    fn stalls_from(&self) -> usize {
        let half = self.counts.iter().sum::<f64>() / 2.0;
        let sums = self.counts.iter().scan(0.0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let median = sums.zip(&self.bounds).find(|(sum, _)| *sum >= half).map_or(0.0, |(_, bound)| *bound);
        let below = self.bounds.partition_point(|bound| *bound < median * STALL_FACTOR);
        (below + 1).min(self.counts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-12, "{found} {want}");
    }

    #[test]
    fn a_histogram_keeps_its_mean_and_its_tail() {
        let sync = TimeHistogram::from_histogram(&[1e-3, 0.1, f64::INFINITY], &[98.0, 1.0, 1.0], 0.092).unwrap();
        assert_eq!(sync.bounds, [1e-3, 0.1]);
        assert_eq!(sync.counts, [98.0, 2.0]);
        let times = sync.distribution().unwrap();
        assert!((times.mean() - 0.92e-3).abs() < 1e-9, "{}", times.mean());
        assert!(times.quantile(0.97) < 1.2e-3 && times.quantile(0.995) > 0.02);
        assert_eq!(TimeHistogram::from_histogram(&[1e-3, f64::INFINITY], &[0.0, 0.0], 0.0), None);
        assert_eq!(TimeHistogram::from_histogram(&[f64::INFINITY], &[1.0], 1.0), None);
        assert_eq!(TimeHistogram::from_histogram(&[1e-3], &[], 1.0), None);
    }

    #[test]
    fn single_times_are_in_the_buckets_below_their_bounds() {
        let times: Vec<f64> = (1..=1_000_u32).map(|at| f64::from(at) * 1e-5).collect();
        let histogram = TimeHistogram::of_times(&times).unwrap();
        near(histogram.mean_seconds, 5.005e-3);
        near(histogram.counts.iter().sum(), 1_000.0);
        assert!(histogram.bounds.last().unwrap() / 1e-2 < 1.5, "{:?}", histogram.bounds);
        let distribution = histogram.distribution().unwrap();
        for share in [0.1, 0.5, 0.9, 0.99] {
            let error = distribution.quantile(share) / (share * 1e-2) - 1.0;
            assert!(error.abs() < 0.1, "{share}: {error}");
        }
        assert_eq!(TimeHistogram::of_times(&[LEAST_BOUND_SECONDS]).unwrap().counts, [1.0]);
        let equal = TimeHistogram::of_times(&[1e-3; 7]).unwrap();
        assert_eq!(equal.counts, [0.0, 7.0]);
        assert!(equal.bounds[0] < 1e-3 && equal.bounds[1] >= 1e-3, "{equal:?}");
        assert_eq!(TimeHistogram::of_times(&[]), None);
        assert_eq!(TimeHistogram::of_times(&[1e-3, f64::INFINITY]), None);
    }

    #[test]
    fn times_without_a_part_are_shorter_and_keep_their_order() {
        let sync = TimeHistogram { mean_seconds: 1e-3, bounds: vec![2e-4, 1e-3, 0.1], counts: vec![1.0, 8.0, 1.0] };
        let shorter = sync.without(3e-4);
        near(shorter.mean_seconds, 7e-4);
        for (found, want) in shorter.bounds.iter().zip([2e-5, 7e-4, 0.0997]) {
            near(*found, want);
        }
        let none = sync.without(1.0);
        near(none.mean_seconds, 1e-4);
        assert!(none.distribution().is_some());
    }
}
