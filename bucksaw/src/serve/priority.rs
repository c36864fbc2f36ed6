//! Work at a lower priority than the rest of the process.
//!
//! The store steps aside only between blocks, and a block takes a fraction of a second: for so long a query that comes
//! meanwhile would share the cores with it as with an equal. At a lower priority it has next to nothing of a core
//! that a query wants, and all of one that nobody wants.
//!
//! Priorities are for ever: a thread may lower its own, and only a privileged process may raise it again. So the work gets
//! a thread of its own, which ends with it; what is done so takes from a few milliseconds to minutes.
//!
//! Where there is a priority for the process only, and not for each thread, nothing is lowered.

use std::panic::resume_unwind;
use std::thread;

use tracing::debug;

/// By so much the thread is nicer than the others. Each step is a quarter in CPU time: 15 leave it some thirtieth of what
/// an equal has, so that answers hardly feel it. At 19 it would be an eightieth, and under queries that never end a block
/// would take minutes; when so much has piled up that this matters, the store no longer works at a lower priority.
#[cfg(target_os = "linux")]
const STEPS: i32 = 15;

/// Does the work on a thread of lower priority, and waits for it; where there is no thread to be had, on this one. A panic
/// goes on here.
pub(super) fn modestly(work: &(dyn Fn() + Sync)) {
    let lowered = || {
        lower_this_thread();
        work();
    };
    thread::scope(|scope| match thread::Builder::new().name("modest".into()).spawn_scoped(scope, lowered) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        Err(_) => work(),
    });
}

/// On Linux the priority of "this process" is that of the calling thread, whatever POSIX says.
#[cfg(target_os = "linux")]
fn lower_this_thread() {
    if let Err(error) = rustix::process::nice(STEPS) {
        debug!(%error, "cannot lower a thread's priority: it has that of the others");
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_this_thread() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_thread_of_the_work_is_lowered() {
        let now = || rustix::process::nice(0).unwrap();
        let (before, seen) = (now(), std::sync::Mutex::new(None));
        modestly(&|| *seen.lock().unwrap() = Some(now()));
        assert_eq!(*seen.lock().unwrap(), Some((before + STEPS).min(19)));
        assert_eq!(now(), before);
    }

    #[test]
    fn a_panic_goes_on() {
        let failed = std::panic::catch_unwind(|| modestly(&|| panic!("a bug")));
        assert!(failed.is_err());
    }
}
