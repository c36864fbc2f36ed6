//! The rate of a repair pass, from samples of its remaining bytes.

use std::time::Duration;

/// Interval of samples. Two samples are kept, so the rate covers the last one to two intervals.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(45);

/// Minimum time after the first sample for a rate.
const SPAN_MIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct PassRate {
    before: RateSample,
    last: RateSample,
}

#[derive(Clone, Copy, Debug)]
struct RateSample {
    at: Duration,
    left_bytes: u64,
}

impl PassRate {
    pub(crate) fn new(now: Duration, left_bytes: u64) -> Self {
        let first = RateSample { at: now, left_bytes };
        Self { before: first, last: first }
    }

    pub(crate) fn sample(&mut self, now: Duration, left_bytes: u64) {
        if now.saturating_sub(self.last.at) >= SAMPLE_INTERVAL {
            *self = Self { before: self.last, last: RateSample { at: now, left_bytes } };
        }
    }

    pub(crate) fn bytes_per_second(&self, now: Duration, left_bytes: u64) -> u64 {
        let span = now.saturating_sub(self.before.at);
        if span < SPAN_MIN {
            return 0;
        }
        (self.before.left_bytes.saturating_sub(left_bytes) as f64 / span.as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_the_last_minute() {
        let at = Duration::from_secs;
        let mut left = 1_000_000;
        let mut rate = PassRate::new(at(0), left);
        assert_eq!(rate.bytes_per_second(at(0), left), 0);
        for second in 1..=600 {
            left -= 100;
            rate.sample(at(second), left);
            assert_eq!(rate.bytes_per_second(at(second), left), 100, "{second}");
        }
        // A stopped pass has rate 0 after two intervals.
        for second in 601..=700 {
            rate.sample(at(second), left);
        }
        assert_eq!(rate.bytes_per_second(at(700), left), 0);
        // The remaining bytes can grow.
        assert_eq!(rate.bytes_per_second(at(701), left + 1), 0);
    }
}
