//! Work at a lower priority than the rest of the process.
//!
//! The store steps aside only between blocks, and a block takes a fraction of a second: for so long a query that comes
//! meanwhile would share the cores with it as with an equal. At a lower priority it has next to nothing of a core
//! that a query wants, and all of one that nobody wants.
//!
//! Priorities are for ever: a thread may lower its own, and only a privileged process may raise it again. So this work has
//! threads of its own. They stay: each thread gets memory from an arena of the allocator, a merge leaves tens of
//! megabytes in it that only its next one uses again, and a new thread each time would take another arena.
//!
//! Where there is a priority for the process only, and not for each thread, nothing is lowered.

use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tracing::debug;

/// By so much these threads are nicer than the others. Each step is a quarter in CPU time: 15 leave it some thirtieth of what
/// an equal has, so that answers hardly feel it. At 19 it would be an eightieth, and under queries that never end a block
/// would take minutes; when so much has piled up that this matters, the store no longer works at a lower priority.
#[cfg(target_os = "linux")]
const NICE_STEPS: i32 = 15;

/// Gathering, merging and repair may go on at once. What is more waits.
const THREADS_MAX: usize = 4;

/// A node that takes in records merges every few minutes.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(600);

/// A runtime whose blocking threads have a lower priority; it runs nothing else.
pub(super) fn background_runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .max_blocking_threads(THREADS_MAX)
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .thread_name("modest")
        .on_thread_start(lower_this_thread)
        .build()
        .context("cannot start the threads of a lower priority")
}

/// On Linux the priority of "this process" is that of the calling thread, whatever POSIX says.
#[cfg(target_os = "linux")]
fn lower_this_thread() {
    if let Err(error) = rustix::process::nice(NICE_STEPS) {
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
    fn only_its_threads_are_lowered() {
        let now = || rustix::process::nice(0).unwrap();
        let (before, modest) = (now(), background_runtime().unwrap());
        let seen = modest.block_on(modest.handle().spawn_blocking(now)).unwrap();
        assert_eq!(seen, (before + NICE_STEPS).min(19));
        assert_eq!(now(), before);
    }
}
