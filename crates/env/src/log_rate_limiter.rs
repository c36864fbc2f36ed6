//! Limits the log lines of an error that recurs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Lets the first occurrence of an error be logged, then at most one per [`Self::INTERVAL_MIN`]. One value counts one kind of
/// error at one place in the code.
///
/// ```
/// use std::time::Duration;
/// let limiter = bucksaw_env::LogRateLimiter::new();
/// assert_eq!(limiter.check(Duration::from_secs(1)), Some(0));
/// assert_eq!(limiter.check(Duration::from_secs(2)), None);
/// assert_eq!(limiter.check(Duration::from_secs(61)), Some(1));
/// ```
#[derive(Debug, Default)]
pub struct LogRateLimiter(Mutex<LogWindow>);

#[derive(Debug, Default)]
struct LogWindow {
    /// The uptime at which the last line was logged.
    last: Option<Duration>,
    suppressed: u64,
}

impl LogRateLimiter {
    /// The minimum time between two lines.
    pub const INTERVAL_MIN: Duration = Duration::from_secs(60);

    /// A limiter that lets the first occurrence through.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(LogWindow { last: None, suppressed: 0 }))
    }

    /// Counts an occurrence at this uptime. Returns how many were suppressed since the last line when this one may be
    /// logged, and `None` when it is suppressed too.
    #[must_use]
    pub fn check(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_sub(last) < Self::INTERVAL_MIN) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_with_the_count_of_suppressed_lines() {
        let limiter = LogRateLimiter::new();
        let passed: Vec<(u64, u64)> =
            (3..200).filter_map(|second| Some((second, limiter.check(Duration::from_secs(second))?))).collect();
        assert_eq!(passed, [(3, 0), (63, 59), (123, 59), (183, 59)]);
    }
}
