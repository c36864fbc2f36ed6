//! A clock that stands still until a test moves it.
//!
//! Wall clock and uptime are kept apart, because on a real machine they are: the wall clock is set by people and by
//! NTP, and code that measures a timeout by it is wrong.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A clock that is wound by hand. Threads that share it see the same time.
#[derive(Debug)]
pub struct Clock(Mutex<Now>);

#[derive(Debug)]
struct Now {
    /// Since 1970. Not in whole milliseconds, so that many small advances add up.
    wall: Duration,
    uptime: Duration,
}

impl Clock {
    /// A clock whose wall shows `unix_ms` milliseconds since 1970, and whose uptime is zero.
    #[must_use]
    pub fn at(unix_ms: u64) -> Self {
        Self(Mutex::new(Now { wall: Duration::from_millis(unix_ms), uptime: Duration::ZERO }))
    }

    /// Lets time pass: moves the wall clock and the uptime on.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now();
        now.wall = now.wall.saturating_add(by);
        now.uptime = now.uptime.saturating_add(by);
    }

    /// Sets the wall clock on or back by `ms` milliseconds, but not to before 1970. The uptime does not notice.
    pub fn jump(&self, ms: i64) {
        let by = Duration::from_millis(ms.unsigned_abs());
        let mut now = self.now();
        now.wall = if ms < 0 { now.wall.saturating_sub(by) } else { now.wall.saturating_add(by) };
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crate::Clock for Clock {
    fn unix_ms(&self) -> u64 {
        u64::try_from(self.now().wall.as_millis()).unwrap_or(u64::MAX)
    }

    fn uptime(&self) -> Duration {
        self.now().uptime
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock as _;

    #[test]
    fn wall_and_uptime_move_apart() {
        let clock = Clock::at(1_000);
        let check = |wall: u64, uptime_us: u64| {
            assert_eq!((clock.unix_ms(), clock.uptime()), (wall, Duration::from_micros(uptime_us)));
        };
        check(1_000, 0);
        clock.advance(Duration::from_micros(600));
        check(1_000, 600);
        clock.advance(Duration::from_micros(600));
        check(1_001, 1_200);
        clock.jump(9);
        check(1_010, 1_200);
        clock.jump(-10);
        check(1_000, 1_200);
        clock.jump(i64::MIN);
        check(0, 1_200);
    }
}
