//! Low-priority threads for the background work of the store.
//!
//! Background work yields to queries only between blocks, and a block takes a fraction of a second. At a lower priority
//! it takes little of the cores from a query that arrives meanwhile.
//!
//! Only a privileged process can raise a priority again, so the work has threads of its own. They are kept between
//! merges: a merge leaves tens of megabytes in the allocator's arena of its thread, and a new thread would take another
//! arena.
//!
//! On systems where only processes have priorities, nothing is lowered.

use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tracing::debug;

/// Difference in niceness to other threads. Each step changes the share of CPU time by a quarter. With 15 steps the
/// work gets a thirtieth of an equal share, which slows queries little. With 19 it would get an eightieth, and a block
/// would take minutes under constant queries. With a large compaction backlog the store does not use these threads.
#[cfg(target_os = "linux")]
const NICE_STEPS: i32 = 15;

/// Gather, compaction and repair may run at once; further work waits.
const THREADS_MAX: usize = 4;

/// Longer than the interval of merges on a node that ingests.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(600);

/// A runtime whose blocking threads have a lower priority; it runs nothing else.
pub(super) fn background_runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .max_blocking_threads(THREADS_MAX)
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .thread_name("background")
        .on_thread_start(lower_this_thread)
        .build()
        .context("cannot start the threads of a lower priority")
}

/// On Linux, unlike POSIX, this sets the priority of the calling thread only.
#[cfg(target_os = "linux")]
fn lower_this_thread() {
    if let Err(error) = rustix::process::nice(NICE_STEPS) {
        debug!(%error, "cannot lower the priority of a thread");
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_this_thread() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_background_threads_have_a_lower_priority() {
        let now = || rustix::process::nice(0).unwrap();
        let (before, runtime) = (now(), background_runtime().unwrap());
        let seen = runtime.block_on(runtime.handle().spawn_blocking(now)).unwrap();
        assert_eq!(seen, (before + NICE_STEPS).min(19));
        assert_eq!(now(), before);
    }
}
