//! The delay before a reconnect.

use std::time::Duration;

/// Counts failed attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    addresses: usize,
    failures: usize,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration, addresses: usize) -> Self {
        Self { min, max, addresses: addresses.max(1), failures: 0 }
    }

    /// Records progress: the next delay is the shortest again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The delay after another failure: none until every address was tried, then twice as long after each round. Half of it is
    /// random, so that many agents do not reconnect at once.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        self.failures += 1;
        if !self.failures.is_multiple_of(self.addresses) {
            return Duration::ZERO;
        }
        let doublings = u32::try_from(self.failures / self.addresses - 1).unwrap_or(u32::MAX);
        let full = self.min.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max);
        let chance = random as f64 / u64::MAX as f64;
        full.mul_f64(0.5 + chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(addresses: usize, random: u64) -> Vec<u64> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(1_000), addresses);
        (0..7).map(|_| backoff.next(random).as_millis() as u64).collect()
    }

    #[test]
    fn delays_double_up_to_their_limit() {
        assert_eq!(delays(1, u64::MAX), [100, 200, 400, 800, 1_000, 1_000, 1_000]);
        assert_eq!(delays(1, 0), [50, 100, 200, 400, 500, 500, 500]);
        assert_eq!(delays(2, u64::MAX), [0, 100, 0, 200, 0, 400, 0]);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), 1);
        backoff.failures = 1 << 40;
        assert_eq!(backoff.next(u64::MAX), Duration::from_secs(5));
    }
}
