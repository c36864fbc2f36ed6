//! Waiting for conditions with a limit.

use std::thread;
use std::time::{Duration, Instant};

/// The limit, which only a failed test reaches. The machine may be very busy.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(600);

/// Polls until there is a value.
///
/// # Panics
/// If there is none within [`WAIT_MAX`].
pub(crate) fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WAIT_MAX;
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(Instant::now() < until, "not within {} s: {what}", WAIT_MAX.as_secs());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Polls until a condition holds; returns whether it did within a minute.
pub(crate) fn has_happened(mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Polls until a condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}
