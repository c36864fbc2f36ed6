//! Limits the log lines of recurring errors.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Clock, lock};

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
        let mut window = lock(&self.window);
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

/// A [`LogRateLimiter`] for each place in the code that logs a recurring error. See [`log_limited!`](crate::log_limited).
#[derive(Debug)]
pub struct LogLimits {
    clock: Arc<dyn Clock>,
    limiters: Mutex<BTreeMap<&'static Location<'static>, LogRateLimiter>>,
}

impl LogLimits {
    /// Limits by the uptime of `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, limiters: Mutex::default() }
    }

    /// [`LogRateLimiter::check`] for the place of this call.
    #[must_use]
    #[track_caller]
    pub fn check(&self) -> Option<u64> {
        lock(&self.limiters).entry(Location::caller()).or_default().check(self.clock.uptime())
    }
}

/// Logs an event at most once a minute, with the number of `suppressed` ones: `log_limited!(limits, warn, …)` is `warn!(…)`.
#[macro_export]
macro_rules! log_limited {
    ($limits:expr, $level:ident, $($event:tt)+) => {
        if let Some(suppressed) = $limits.check() {
            tracing::$level!(suppressed, $($event)+);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    #[test]
    fn each_place_in_the_code_has_a_limit_of_its_own() {
        let limits = LogLimits::new(Arc::new(sim::Clock::at_unix_ms(0)));
        let check_twice = || [limits.check(), limits.check()];
        assert_eq!(check_twice(), [Some(0), Some(0)]);
        assert_eq!(check_twice(), [None, None]);
    }

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
