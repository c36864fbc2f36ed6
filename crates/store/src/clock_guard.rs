//! Suspends retention by age after the wall clock jumps forward.
//!
//! A wall clock that is days ahead makes every record look expired. So retention compares the wall clock with the
//! monotonic clock, and after a restart with the last trusted wall time, which is kept in `clock.json`. The trusted time
//! rises only while the two agree, so a clock that is wrong at each start stays untrusted. A damaged digit could move that
//! time far ahead, where no jump would be detected. So the file has a backup with a checksum.
//!
//! Rule: a wall clock that is more than [`JUMP_MAX_MS`] ahead of the expected time is trusted only after it has run steadily
//! for the duration of the jump, at most [`SUSPENSION_MAX`]. So a machine that was off for eight days expires records a day
//! after its start, and one that was off for an hour after an hour. A clock that returns is trusted at once. A clock that
//! goes back expires fewer records, so it is always trusted.

use std::time::Duration;

use bucksaw_env::to_millis;
use bucksaw_record::Millis;

/// How far the wall clock may be ahead of the expected time, in milliseconds. Adjustments by NTP are smaller.
const JUMP_MAX_MS: u64 = 10 * 60_000;

/// Maximum suspension of retention by age after one jump.
const SUSPENSION_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Detects jumps of the wall clock by the monotonic clock.
#[derive(Debug)]
pub(crate) struct ClockGuard {
    pub(crate) trusted_max: Millis,
    /// The last trusted wall time, and the uptime at which it was read.
    last: (Millis, Duration),
    jump: Option<ClockJump>,
}

/// A jump after which the wall clock is not yet trusted.
#[derive(Clone, Copy, Debug)]
struct ClockJump {
    /// Wall time and uptime when the jump was detected.
    began: (Millis, Duration),
    time: Duration,
    ahead: Duration,
}

/// Suspension of retention by age, and of emptying the trash by age, after the wall clock jumped forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// How far the clock was ahead of the expected time.
    pub ahead: Duration,
    /// The remaining suspension, if the clock runs steadily.
    pub left: Duration,
}

impl ClockGuard {
    /// A guard that trusts the wall time `trusted` at this uptime.
    pub(crate) fn new(trusted: Millis, uptime: Duration) -> Self {
        Self { trusted_max: trusted, last: (trusted, uptime), jump: None }
    }

    /// Updates the guard with a reading of both clocks. Returns `None` if the wall clock is trusted.
    pub(crate) fn check(&mut self, wall: Millis, uptime: Duration) -> Option<Suspension> {
        let expected = self.trusted_max.max(extrapolate(self.last, uptime));
        if wall.0 <= expected.0.saturating_add(JUMP_MAX_MS) {
            return self.trust(wall, uptime);
        }
        let is_steady = |jump: &ClockJump| wall.0.abs_diff(extrapolate(jump.began, uptime).0) <= JUMP_MAX_MS;
        let ahead = Duration::from_millis(wall.0 - expected.0);
        let jump = self.jump.filter(is_steady).unwrap_or(ClockJump {
            began: (wall, uptime),
            time: ahead.min(SUSPENSION_MAX),
            ahead,
        });
        let left = jump.time.saturating_sub(uptime.saturating_sub(jump.began.1));
        if left.is_zero() {
            return self.trust(wall, uptime);
        }
        self.jump = Some(jump);
        Some(Suspension { ahead: jump.ahead, left })
    }

    /// Whether the wall clock is within bounds now. Unlike [`Self::check`], it does not end a suspension.
    pub(crate) fn would_trust(&self, wall: Millis, uptime: Duration) -> bool {
        wall.0 <= self.trusted_max.max(extrapolate(self.last, uptime)).0.saturating_add(JUMP_MAX_MS)
    }

    fn trust(&mut self, wall: Millis, uptime: Duration) -> Option<Suspension> {
        *self = Self { trusted_max: self.trusted_max.max(wall), last: (wall, uptime), jump: None };
        None
    }
}

/// The expected wall time at `uptime`, from an earlier reading of both clocks.
fn extrapolate((wall, since): (Millis, Duration), uptime: Duration) -> Millis {
    let passed = to_millis(uptime.saturating_sub(since));
    Millis(wall.0.saturating_add(passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;
    const START: u64 = 1_763_680_200_000;

    fn check(guard: &mut ClockGuard, wall: u64, uptime: u64) -> bool {
        guard.check(Millis(wall), Duration::from_millis(uptime)).is_none()
    }

    #[test]
    fn a_clock_that_jumps_and_returns_is_trusted_when_it_is_back() {
        let mut guard = ClockGuard::new(Millis(START), Duration::ZERO);
        assert!(check(&mut guard, START + 1_000, 1_000));
        assert!(!check(&mut guard, START + 8 * DAY + 2_000, 2_000));
        assert!(!check(&mut guard, START + 8 * DAY + 14_000, 14_000));
        assert_eq!(guard.trusted_max, Millis(START + 1_000));
        assert!(check(&mut guard, START + 15_000, 15_000));
        assert!(check(&mut guard, START + HOUR, HOUR));
    }

    #[test]
    fn a_clock_that_stays_ahead_is_trusted_after_the_jump_or_a_day() {
        for (jump, wait) in [(20 * 60_000, 20 * 60_000), (HOUR, HOUR), (8 * DAY, DAY), (400 * DAY, DAY)] {
            let mut guard = ClockGuard::new(Millis(START), Duration::ZERO);
            assert!(!check(&mut guard, START + jump, 0));
            assert!(!check(&mut guard, START + jump + wait - 1, wait - 1), "{jump}");
            assert!(check(&mut guard, START + jump + wait, wait), "{jump}");
        }
    }

    #[test]
    fn a_second_jump_begins_the_wait_again() {
        let mut guard = ClockGuard::new(Millis(START), Duration::ZERO);
        assert!(!check(&mut guard, START + 2 * HOUR, 0));
        assert!(!check(&mut guard, START + 5 * HOUR, HOUR));
        assert!(!check(&mut guard, START + 6 * HOUR, 2 * HOUR));
        assert!(check(&mut guard, START + 9 * HOUR, 5 * HOUR));
    }

    #[test]
    fn a_clock_that_goes_back_is_trusted_and_so_is_its_return() {
        let mut guard = ClockGuard::new(Millis(START), Duration::ZERO);
        assert!(check(&mut guard, 0, 1_000));
        assert!(check(&mut guard, START + 2_000, 2_000));
        assert!(check(&mut guard, START + 2_000 + JUMP_MAX_MS, 2_000));
    }
}
