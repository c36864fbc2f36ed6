//! The scan pool, with one thread pinned to each core.
//!
//! The kernel counts a core with low-priority work as busy. While the store merges, it often puts two unpinned threads
//! on one core and separates them only after tens of milliseconds. Until then a query runs on half of the cores. Pinned
//! threads take jobs as they finish others, so a thread on a busy core gets fewer.

use bucksaw_query::ScanPool;

/// Starts the pool, with a thread per core that this process can use.
pub(super) fn pool() -> std::io::Result<ScanPool> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // In most containers a process may use a share of all cores. Pinned threads of several such processes would use the
    // same few cores.
    let cores = Some(allowed()).filter(|cores| cores.len() == threads).unwrap_or_default();
    ScanPool::start(threads, move |number| {
        match cores.get(number) {
            Some(core) => pin_to(&[*core]),
            // An extra thread inherits the core of the thread that started it.
            None if !cores.is_empty() => pin_to(&cores),
            None => {}
        }
    })
}

/// The numbers of the cores that this process may run on; empty if unknown.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn pin_to(cores: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!(%error, ?cores, "cannot pin a scan thread: the kernel chooses its core");
    }
}

#[cfg(not(target_os = "linux"))]
fn pin_to(_: &[usize]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_pinned_thread_stays_on_its_core() {
        let before = allowed();
        let last = *before.last().unwrap();
        let seen = std::thread::spawn(move || {
            pin_to(&[last]);
            allowed()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert_eq!(allowed(), before);
        drop(pool().unwrap());
        assert_eq!(allowed(), before);
    }
}
