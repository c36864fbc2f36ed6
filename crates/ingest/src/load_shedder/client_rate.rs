//! The rate of a connected client.

use std::time::Duration;

/// Minimum interval between two suggestions to one client. `forward` ignores a second suggestion for a minute, so an earlier
/// one has no effect.
const SUGGESTION_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// The smoothed rate of a client, and its last redirect suggestion.
#[derive(Clone, Copy, Debug)]
pub struct ClientRate {
    sampled_at: Duration,
    bytes: u64,
    bytes_per_second: u64,
    suggested_at: Option<Duration>,
}

impl ClientRate {
    /// A client that connects now and has sent nothing. `now` is the uptime.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self { sampled_at: now, bytes: 0, bytes_per_second: 0, suggested_at: None }
    }

    /// Smoothed rate in bytes per second, given the total `bytes` received. It rises at once and decays by at most a quarter per
    /// sample, so a short pause does not make a busy client look idle.
    pub fn sample(&mut self, now: Duration, bytes: u64) -> u64 {
        let millis = now.saturating_sub(self.sampled_at).as_millis().max(1);
        let new = u128::from(bytes.saturating_sub(self.bytes)) * 1_000 / millis;
        let held = self.bytes_per_second - self.bytes_per_second.div_ceil(4);
        let bytes_per_second = u64::try_from(new).unwrap_or(u64::MAX).max(held);
        *self = Self { sampled_at: now, bytes, bytes_per_second, ..*self };
        bytes_per_second
    }

    /// Records a suggestion.
    pub fn record_suggestion(&mut self, now: Duration) {
        self.suggested_at = Some(now);
    }

    /// Whether the client may follow another suggestion.
    #[must_use]
    pub fn may_be_redirected(&self, now: Duration) -> bool {
        self.suggested_at.is_none_or(|at| now.saturating_sub(at) >= SUGGESTION_INTERVAL_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_at_once_and_falls_slowly() {
        let mut client_rate = ClientRate::new(Duration::from_secs(10));
        let mut check =
            |seconds, bytes, want| assert_eq!(client_rate.sample(Duration::from_secs(seconds), bytes), want);
        check(10, 0, 0);
        check(12, 2_000, 1_000);
        check(13, 2_000, 750);
        check(15, 5_000, 1_500);
        check(16, 5_001, 1_125);
        for (second, want) in (17..).zip([843, 632, 474]) {
            check(second, 5_001, want);
        }
        for second in 20..60 {
            let _ = client_rate.sample(Duration::from_secs(second), 5_001);
        }
        assert_eq!(client_rate.sample(Duration::from_secs(60), 5_001), 0);
    }

    #[test]
    fn a_client_that_ignores_a_suggestion_gets_no_other_for_a_minute() {
        let mut client_rate = ClientRate::new(Duration::from_secs(10));
        assert!(client_rate.may_be_redirected(Duration::from_secs(10)));
        client_rate.record_suggestion(Duration::from_secs(20));
        let _ = client_rate.sample(Duration::from_secs(30), 1_000);
        assert!(
            !client_rate.may_be_redirected(Duration::from_secs(79))
                && client_rate.may_be_redirected(Duration::from_secs(80))
        );
    }
}
