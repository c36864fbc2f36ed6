//! Whether ClickHouse answers, and when to try again.

use std::sync::Mutex;
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::Millis;

/// The first pause after a failure. Each further failure doubles it.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What the last calls have shown.
#[derive(Debug, Default)]
pub(crate) struct ServerHealth(Mutex<Failure>);

/// A failure that lasts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    /// The reason of the last failed call; `None` if the last call succeeded.
    pub(crate) reason: Option<String>,
    /// The time of the first failed call since one succeeded.
    pub(crate) since: Option<Millis>,
    /// Failed calls in sequence.
    count: u32,
    /// The uptime until which nothing is stored.
    paused_until: Duration,
}

impl ServerHealth {
    pub(crate) fn failure(&self) -> Failure {
        lock(&self.0).clone()
    }

    /// A call succeeded. Returns whether the one before had failed.
    pub(crate) fn succeed(&self) -> bool {
        std::mem::take(&mut *lock(&self.0)).reason.is_some()
    }

    /// Storing failed. The pause is counted from `uptime`.
    pub(crate) fn fail(&self, reason: String, now: Millis, uptime: Duration) {
        let mut failure = lock(&self.0);
        failure.reason = Some(reason);
        failure.since.get_or_insert(now);
        let pause = PAUSE_MIN.saturating_mul(1 << failure.count.min(5)).min(PAUSE_MAX);
        failure.count = failure.count.saturating_add(1);
        failure.paused_until = uptime.saturating_add(pause);
    }

    /// Whether nothing is stored now.
    pub(crate) fn is_paused(&self, uptime: Duration) -> bool {
        let failure = lock(&self.0);
        failure.reason.is_some() && uptime < failure.paused_until
    }

    /// Ends the pause, because the server answers again. The failure lasts until something is stored.
    pub(crate) fn end_pause(&self) {
        lock(&self.0).paused_until = Duration::ZERO;
    }

    /// Whether the last call failed.
    pub(crate) fn is_failing(&self) -> bool {
        lock(&self.0).reason.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_a_success() {
        let (health, second) = (ServerHealth::default(), Duration::from_secs(1));
        let mut pauses = Vec::new();
        for _ in 0..7 {
            health.fail("away".to_owned(), Millis(5), Duration::ZERO);
            pauses.push((0..60).find(|seconds| !health.is_paused(second * *seconds)).unwrap());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        health.fail("still".to_owned(), Millis(9), Duration::ZERO);
        assert_eq!((health.failure().since, health.failure().reason.as_deref()), (Some(Millis(5)), Some("still")));
        health.end_pause();
        assert!(!health.is_paused(Duration::ZERO) && health.is_failing());
        assert!(health.succeed() && !health.succeed());
        health.fail("away".to_owned(), Millis(7), Duration::ZERO);
        assert!(health.is_paused(Duration::ZERO) && !health.is_paused(second));
    }
}
