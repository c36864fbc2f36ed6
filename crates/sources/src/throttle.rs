//! One log line where there would be thousands: a fault that all clients have, or one that a client repeats.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The least time between two lines.
const APART: Duration = Duration::from_secs(10);

/// Lets one line through now and then.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Option<Duration>>);

impl Throttle {
    /// Whether a line may be logged at this uptime.
    pub(crate) fn passes(&self, now: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = last.is_none_or(|last| now.saturating_sub(last) >= APART);
        if passes {
            *last = Some(now);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds() {
        let throttle = Throttle::default();
        let passed: Vec<u64> = (3..26).filter(|second| throttle.passes(Duration::from_secs(*second))).collect();
        assert_eq!(passed, [3, 13, 23]);
    }
}
