//! A clock that only a test or a world advances.
//!
//! Wall clock and uptime are separate, as on a real machine, where people and NTP set the wall clock: code that measures a
//! timeout by it is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A simulated clock. Threads that share it see the same time.
#[derive(Debug)]
pub struct Clock {
    /// Elapsed time, which clocks of one world share.
    elapsed: ElapsedNanos,
    /// The elapsed nanoseconds at the start of this clock.
    started: u64,
    /// Nanoseconds since 1970 minus the elapsed ones.
    wall_offset: AtomicI64,
}

/// Elapsed nanoseconds, shared by all clones.
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
    /// A clock with the wall time `unix_ms`, in milliseconds since 1970, and uptime zero.
    pub fn at_unix_ms(unix_ms: u64) -> Self {
        Self::driven_by(ElapsedNanos::default(), unix_ms)
    }

    /// The same, advanced by `elapsed`.
    pub(super) fn driven_by(elapsed: ElapsedNanos, unix_ms: u64) -> Self {
        let started = elapsed.get();
        let wall = signed(nanos(Duration::from_millis(unix_ms)));
        Self { elapsed, started, wall_offset: AtomicI64::new(wall.saturating_sub(signed(started))) }
    }

    /// Advances wall clock and uptime.
    pub fn advance(&self, by: Duration) {
        self.elapsed.0.fetch_add(nanos(by), Ordering::Relaxed);
    }

    /// Moves the wall clock by `ms` milliseconds, but not before 1970. The uptime is unaffected.
    pub fn jump(&self, ms: i64) {
        let elapsed = signed(self.elapsed.get());
        let wall = self.wall_offset.load(Ordering::Relaxed).saturating_add(elapsed);
        let wall = wall.saturating_add(ms.saturating_mul(1_000_000)).max(0);
        self.wall_offset.store(wall.saturating_sub(elapsed), Ordering::Relaxed);
    }
}

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

    fn sleep(&self, _: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock as _;

    fn check(clock: &Clock, wall: u64, uptime_us: u64) {
        assert_eq!((clock.unix_ms(), clock.uptime()), (wall, Duration::from_micros(uptime_us)));
    }

    #[test]
    fn a_jump_moves_the_wall_clock_only() {
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
