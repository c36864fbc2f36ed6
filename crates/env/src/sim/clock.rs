//! A clock that stands still until a test moves it, or its world.
//!
//! Wall clock and uptime are kept apart, because on a real machine they are: the wall clock is set by people and by
//! NTP, and code that measures a timeout by it is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A clock that is wound by hand. Threads that share it see the same time.
#[derive(Debug)]
pub struct Clock {
    /// Nanoseconds that have passed, by a clock that others may share.
    elapsed: ElapsedNanos,
    /// What had passed when this one began.
    started: u64,
    /// What the wall clock shows beyond what has passed, in nanoseconds since 1970.
    wall_offset: AtomicI64,
}

/// How much time has passed, in nanoseconds. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ElapsedNanos(Arc<AtomicU64>);

impl ElapsedNanos {
    pub(super) fn set(&self, now: Duration) {
        self.0.store(nanos(now), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock {
    /// A clock whose wall shows `unix_ms` milliseconds since 1970, and whose uptime is zero.
    #[must_use]
    pub fn at_unix_ms(unix_ms: u64) -> Self {
        Self::driven_by(ElapsedNanos::default(), unix_ms)
    }

    /// The same, moved on by what passes there.
    pub(super) fn driven_by(passed: ElapsedNanos, unix_ms: u64) -> Self {
        let begun = passed.get();
        let wall = signed(nanos(Duration::from_millis(unix_ms)));
        Self { elapsed: passed, started: begun, wall_offset: AtomicI64::new(wall.saturating_sub(signed(begun))) }
    }

    /// Lets time pass: moves the wall clock and the uptime on.
    pub fn advance(&self, by: Duration) {
        self.elapsed.0.fetch_add(nanos(by), Ordering::Relaxed);
    }

    /// Sets the wall clock on or back by `ms` milliseconds, but not to before 1970. The uptime does not notice.
    pub fn jump(&self, ms: i64) {
        let passed = signed(self.elapsed.get());
        let wall = self.wall_offset.load(Ordering::Relaxed).saturating_add(passed);
        let wall = wall.saturating_add(ms.saturating_mul(1_000_000)).max(0);
        self.wall_offset.store(wall.saturating_sub(passed), Ordering::Relaxed);
    }
}

/// A simulation that lasts for centuries is none of ours.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

impl crate::Clock for Clock {
    fn unix_ms(&self) -> u64 {
        let wall = self.wall_offset.load(Ordering::Relaxed).saturating_add(signed(self.elapsed.get()));
        u64::try_from(wall / 1_000_000).unwrap_or_default()
    }

    fn uptime(&self) -> Duration {
        Duration::from_nanos(self.elapsed.get().saturating_sub(self.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock as _;

    fn check(clock: &Clock, wall: u64, uptime_us: u64) {
        assert_eq!((clock.unix_ms(), clock.uptime()), (wall, Duration::from_micros(uptime_us)));
    }

    #[test]
    fn wall_and_uptime_move_apart() {
        let clock = Clock::at_unix_ms(1_000);
        check(&clock, 1_000, 0);
        clock.advance(Duration::from_micros(600));
        check(&clock, 1_000, 600);
        clock.advance(Duration::from_micros(600));
        check(&clock, 1_001, 1_200);
        clock.jump(9);
        check(&clock, 1_010, 1_200);
        clock.jump(-10);
        check(&clock, 1_000, 1_200);
        clock.jump(i64::MIN);
        check(&clock, 0, 1_200);
    }

    #[test]
    fn a_later_clock_starts_at_zero_uptime() {
        let passed = ElapsedNanos::default();
        passed.set(Duration::from_secs(5));
        let clock = Clock::driven_by(passed.clone(), 1_000);
        check(&clock, 1_000, 0);
        passed.set(Duration::from_secs(6));
        check(&clock, 2_000, 1_000_000);
        clock.jump(-1_500);
        check(&clock, 500, 1_000_000);
    }
}
