//! Waiting for conditions, never for ever.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take that should come soon. The machine may be busy with other things.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
///
/// # Panics
/// When there is none in time; `what` says what was waited for.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WAIT_MAX;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "waited {} s in vain: {what}", WAIT_MAX.as_secs());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Asks until it is so.
pub(crate) fn wait_until(what: &str, mut ask: impl FnMut() -> bool) {
    wait_for(what, || ask().then_some(()));
}
