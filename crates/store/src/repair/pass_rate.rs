//! How fast a pass gets on: by what was left of it a while ago, and is left now.

use std::time::Duration;

/// What was left is noted so often. Two notes are kept, so the pace is that of the last one to two of these.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(45);

/// Sooner than this after the first note nothing can be said.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// The pace of one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassRate {
    before: RateSample,
    last: RateSample,
}

/// So much was left at an uptime.
#[derive(Clone, Copy, Debug)]
struct RateSample {
    at: Duration,
    left_bytes: u64,
}

impl PassRate {
    /// A pass begins.
    pub(crate) fn new(now: Duration, left_bytes: u64) -> Self {
        let first = RateSample { at: now, left_bytes };
        Self { before: first, last: first }
    }

    /// So much is left now.
    pub(crate) fn sample(&mut self, now: Duration, left_bytes: u64) {
        if now.saturating_sub(self.last.at) >= SAMPLE_INTERVAL {
            *self = Self { before: self.last, last: RateSample { at: now, left_bytes } };
        }
    }

    /// Bytes a second, when so much is left now.
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
        let mut pace = PassRate::new(at(0), left);
        assert_eq!(pace.bytes_per_second(at(0), left), 0);
        for second in 1..=600 {
            left -= 100;
            pace.sample(at(second), left);
            assert_eq!(pace.bytes_per_second(at(second), left), 100, "{second}");
        }
        // It stops: that is seen within two spans.
        for second in 601..=700 {
            pace.sample(at(second), left);
        }
        assert_eq!(pace.bytes_per_second(at(700), left), 0);
        // More is left than before: what was there has moved.
        assert_eq!(pace.bytes_per_second(at(701), left + 1), 0);
    }
}
