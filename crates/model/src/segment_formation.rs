//! How often a segment closes: when it has its bytes, or its age.

use crate::distribution::Distribution;
use crate::number::{non_negative, positive};
use crate::special::gamma_tail;

/// Most appends in a segment for which [`SegmentFormation::record_wait`] adds up their intervals.
const APPENDS_ADDED_MAX: u32 = 64;

/// Appends to one segment, which closes at a size or at an age.
///
/// Assumption: appends arrive independently of each other (Poisson) and have equal sizes. A segment begins with its first
/// append. The append that reaches `bytes_max` closes it; otherwise it closes `age_seconds_max` after its first append.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentFormation {
    /// Mean number of appends per second.
    pub appends_per_second: f64,
    /// Bytes of one append.
    pub append_bytes: f64,
    /// Bytes at which a segment closes.
    pub bytes_max: f64,
    /// Age in seconds at which a segment closes, counted from its first append.
    pub age_seconds_max: f64,
}

impl SegmentFormation {
    /// Mean age in seconds at which a segment closes. `None` if an input is negative or not finite, or a size or the rate is 0.
    ///
    /// With *k* appends in a full segment, the time until it is full is the sum of *k* − 1 exponential intervals. The mean of the
    /// lesser of this time and the age is exact: `(k−1)/rate · P(gamma(k) ≤ x) + age · P(gamma(k−1) > x)` with `x = rate · age`.
    /// Source: partial expectation of the gamma distribution, in Johnson, Kotz, Balakrishnan, "Continuous Univariate
    /// Distributions", volume 1, 1994, chapter 17.
    pub fn mean_age_seconds(&self) -> Option<f64> {
        let rate = positive(self.appends_per_second)?;
        let age = non_negative(self.age_seconds_max)?;
        let further = (positive(self.bytes_max)? / positive(self.append_bytes)?).ceil() - 1.0;
        if further <= 0.0 {
            return Some(0.0);
        }
        let (fill, x) = (further / rate, rate * age);
        if !fill.is_finite() {
            return Some(age);
        }
        Some((fill * (1.0 - gamma_tail(further + 1.0, x)) + age * gamma_tail(further, x)).min(age).min(fill))
    }

    /// The time in seconds from an append to the close of its segment, over all appends, if segments close by their size and not
    /// by their age. `None` as for [`mean_age_seconds`](Self::mean_age_seconds), and if it is out of the range of a
    /// [`Distribution`].
    ///
    /// Append *i* of *k* waits for *k* − *i* exponential intervals. Exact up to 64 appends; above, a uniform time up to the mean
    /// time of all intervals, which has the right mean and is too narrow.
    pub fn record_wait(&self) -> Option<Distribution> {
        let rate = positive(self.appends_per_second)?;
        let appends = (positive(self.bytes_max)? / positive(self.append_bytes)?).ceil();
        if appends > f64::from(APPENDS_ADDED_MAX) {
            return Distribution::uniform(0.0, (appends - 1.0) / rate).ok();
        }
        let interval = Distribution::exponential(1.0 / rate).ok()?;
        let first = Distribution::constant(0.0).ok()?;
        let waits: Vec<Distribution> =
            std::iter::successors(Some(first), |wait| Some(wait.plus(&interval))).take(appends as usize).collect();
        Distribution::mixture(&waits.iter().map(|wait| (1.0, wait)).collect::<Vec<_>>()).ok()
    }

    /// Segments closed per second: one per mean age and mean time until the next append. `None` as for
    /// [`mean_age_seconds`](Self::mean_age_seconds).
    pub fn segments_per_second(&self) -> Option<f64> {
        Some(1.0 / (1.0 / self.appends_per_second + self.mean_age_seconds()?))
    }

    /// Mean bytes of a segment. `None` as for [`mean_age_seconds`](Self::mean_age_seconds).
    pub fn mean_bytes(&self) -> Option<f64> {
        let appends = 1.0 + self.appends_per_second * self.mean_age_seconds()?;
        Some(appends * self.append_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    #[test]
    fn segments_equal_those_of_simulated_appends() {
        for (rate, bytes, count) in [
            (0.1, 100.0, 100_000),
            (3.0, 1e3, 100_000),
            (30.0, 1e3, 50_000),
            (33.0, 1e4, 20_000),
            (1_000.0, 1e5, 40_000),
            (50.0, 9e4, 20_000),
        ] {
            let model = SegmentFormation {
                appends_per_second: rate,
                append_bytes: bytes,
                bytes_max: 1e6,
                age_seconds_max: 3.0,
            };
            let mut random = OracleRandom::new(1);
            let (mut now, mut ages, mut total) = (0.0, 0.0, 0.0);
            let mut next = random.exponential(1.0 / rate);
            for _ in 0..count {
                let begin: f64 = next;
                let mut size = 0.0;
                // An append at a time beyond the age begins the next segment.
                now = loop {
                    if next > begin + 3.0 {
                        break begin + 3.0;
                    }
                    let at = next;
                    size += bytes;
                    next += random.exponential(1.0 / rate);
                    if size >= 1e6 {
                        break at;
                    }
                };
                ages += now - begin;
                total += size;
            }
            let count = f64::from(count);
            let name = format!("segments, {rate} appends/s of {bytes} bytes");
            assert_near(&format!("{name}, age"), model.mean_age_seconds().unwrap(), ages / count, 0.01);
            assert_near(&format!("{name}, bytes"), model.mean_bytes().unwrap(), total / count, 0.01);
            assert_near(&format!("{name}, rate"), model.segments_per_second().unwrap(), count / now, 0.015);
        }
    }

    #[test]
    fn records_wait_as_simulated_ones_for_the_close_of_their_segment() {
        for appends in [1_u32, 8, 200] {
            let model = SegmentFormation {
                appends_per_second: 7.0,
                append_bytes: 100.0,
                bytes_max: 100.0 * f64::from(appends),
                age_seconds_max: 1e3,
            };
            let mut random = OracleRandom::new(5);
            let mut waits = Vec::new();
            for _ in 0..400_000 / appends {
                let intervals: Vec<f64> = (1..appends).map(|_| random.exponential(1.0 / 7.0)).collect();
                waits.push(0.0);
                waits.extend(intervals.iter().rev().scan(0.0, |sum, interval| {
                    *sum += interval;
                    Some(*sum)
                }));
            }
            let wait = model.record_wait().unwrap();
            let name = format!("wait for the close of a segment of {appends} appends");
            if appends > 1 {
                assert_near(&format!("{name}, mean"), wait.mean(), mean(&waits), 0.01);
                assert_near(&format!("{name}, 99th percentile"), wait.quantile(0.99), quantile(&mut waits, 0.99), 0.1);
            } else {
                assert!(wait.mean() < 1e-9 && mean(&waits) < 1e-9, "{name}");
            }
        }
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for appends_per_second in ODD_NUMBERS {
            for append_bytes in ODD_NUMBERS {
                for bytes_max in ODD_NUMBERS {
                    for age_seconds_max in ODD_NUMBERS {
                        let model = SegmentFormation { appends_per_second, append_bytes, bytes_max, age_seconds_max };
                        let age = model.mean_age_seconds();
                        assert!(age.is_none_or(|age| (0.0..=age_seconds_max).contains(&age)), "{model:?} {age:?}");
                        let _ = (model.mean_bytes(), model.segments_per_second(), model.record_wait());
                    }
                }
            }
        }
    }
}
