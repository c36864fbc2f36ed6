//! The rate of one connected client.

use std::time::Duration;

use bucksaw_env::Entropy;

/// Minimum interval between two suggestions to one client, and between two moves of one sender.
pub const SUGGESTION_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// A random interval from `interval_min` to twice that, so that clients that connected together are not checked together.
pub fn jittered(interval_min: Duration, entropy: &dyn Entropy) -> Duration {
    let nanos = u64::try_from(interval_min.as_nanos()).unwrap_or(u64::MAX);
    interval_min + Duration::from_nanos(entropy.next_u64() % nanos.max(1))
}

/// The smoothed rate of a client, and its last suggestion.
#[derive(Clone, Copy, Debug)]
pub struct ClientRate {
    sampled_at: Duration,
    bytes: u64,
    bytes_per_second: u64,
    suggested_at: Option<Duration>,
}

impl ClientRate {
    /// A client that connects now and has sent nothing. `now` is the uptime.
    pub fn new(now: Duration) -> Self {
        Self { sampled_at: now, bytes: 0, bytes_per_second: 0, suggested_at: None }
    }

    /// Smoothed rate in bytes per second, given the total `bytes` received. It rises at once and decays by at most a quarter per
    /// sample, so a short pause does not make a busy client look idle.
    pub(crate) fn sample(&mut self, now: Duration, bytes: u64) -> u64 {
        let millis = now.saturating_sub(self.sampled_at).as_millis().max(1);
        let current = u128::from(bytes.saturating_sub(self.bytes)) * 1_000 / millis;
        let decayed = self.bytes_per_second - self.bytes_per_second.div_ceil(4);
        self.bytes_per_second = u64::try_from(current).unwrap_or(u64::MAX).max(decayed);
        (self.sampled_at, self.bytes) = (now, bytes);
        self.bytes_per_second
    }

    pub(crate) fn record_suggestion(&mut self, now: Duration) {
        self.suggested_at = Some(now);
    }

    /// Whether the client may follow another suggestion.
    pub(crate) fn may_be_redirected(&self, now: Duration) -> bool {
        self.suggested_at.is_none_or(|at| now.saturating_sub(at) >= SUGGESTION_INTERVAL_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_at_once_and_falls_slowly() {
        let mut client = ClientRate::new(Duration::from_secs(10));
        let mut check = |seconds, bytes, want| assert_eq!(client.sample(Duration::from_secs(seconds), bytes), want);
        check(10, 0, 0);
        check(12, 2_000, 1_000);
        check(13, 2_000, 750);
        check(15, 5_000, 1_500);
        check(16, 5_001, 1_125);
        for (second, want) in (17..).zip([843, 632, 474]) {
            check(second, 5_001, want);
        }
        for second in 20..60 {
            let _ = client.sample(Duration::from_secs(second), 5_001);
        }
        assert_eq!(client.sample(Duration::from_secs(60), 5_001), 0);
    }
}
