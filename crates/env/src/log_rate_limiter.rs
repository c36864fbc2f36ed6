//! Limits the log lines of recurring errors.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Permits the first log line of an error, then one per interval. One value limits one kind of error at one place in the code.
///
/// ```
/// use std::time::Duration;
/// let limiter = bucksaw_env::LogRateLimiter::new();
/// assert_eq!(limiter.check(Duration::from_secs(1)), Some(0));
/// assert_eq!(limiter.check(Duration::from_secs(2)), None);
/// assert_eq!(limiter.check(Duration::from_secs(61)), Some(1));
/// ```
#[derive(Debug)]
pub struct LogRateLimiter {
    interval: Duration,
    window: Mutex<LogWindow>,
}

#[derive(Debug)]
struct LogWindow {
    /// The uptime of the last line.
    last: Option<Duration>,
    suppressed: u64,
}

impl LogRateLimiter {
    /// Permits one line per minute.
    #[must_use]
    pub const fn new() -> Self {
        Self::every(Duration::from_secs(60))
    }

    /// Permits one line per `interval`.
    #[must_use]
    pub const fn every(interval: Duration) -> Self {
        Self { interval, window: Mutex::new(LogWindow { last: None, suppressed: 0 }) }
    }

    /// Counts an occurrence at the uptime `now`. Returns the number of lines suppressed since the last one if this one may be
    /// logged, else `None`.
    #[must_use]
    pub fn check(&self, now: Duration) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.last.is_some_and(|last| now.saturating_sub(last) < self.interval) {
            window.suppressed += 1;
            return None;
        }
        window.last = Some(now);
        Some(std::mem::take(&mut window.suppressed))
    }
}

impl Default for LogRateLimiter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_permitted_per_interval_with_the_count_of_suppressed_lines() {
        let limiter = LogRateLimiter::new();
        let passed: Vec<(u64, u64)> =
            (3..200).filter_map(|second| Some((second, limiter.check(Duration::from_secs(second))?))).collect();
        assert_eq!(passed, [(3, 0), (63, 59), (123, 59), (183, 59)]);
        let limiter = LogRateLimiter::every(Duration::from_secs(10));
        let passed: Vec<u64> = (0..30).filter(|second| limiter.check(Duration::from_secs(*second)).is_some()).collect();
        assert_eq!(passed, [0, 10, 20]);
    }
}
