//! One log line where there would be thousands: an error that occurs again and again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Lets the first occurrence of an error be logged, and then at most one in [`Self::APART`]. One value counts one kind of
/// error at one place in the program.
///
/// ```
/// use std::time::Duration;
/// let repeats = bucksaw_env::Repeats::new();
/// assert_eq!(repeats.pass(Duration::from_secs(1)), Some(0));
/// assert_eq!(repeats.pass(Duration::from_secs(2)), None);
/// assert_eq!(repeats.pass(Duration::from_secs(61)), Some(1));
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
    /// The least time between two lines.
    pub const INTERVAL_MIN: Duration = Duration::from_secs(60);

    /// One whose first occurrence passes.
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
        let repeats = LogRateLimiter::new();
        let passed: Vec<(u64, u64)> =
            (3..200).filter_map(|second| Some((second, repeats.check(Duration::from_secs(second))?))).collect();
        assert_eq!(passed, [(3, 0), (63, 59), (123, 59), (183, 59)]);
    }
}
