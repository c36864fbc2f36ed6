//! A thread that searches for each core, which stays on it.
//!
//! A core on which work of a lower priority runs is not idle for the kernel. So while the store merges, it often puts two of
//! these threads on one core, and sees only after some tens of milliseconds that they had better be apart: a question
//! has half of the machine until then. Each stays on its own core instead. They divide the work among them as they come to
//! it, so one whose core has other things to do gets less of it.

use bucksaw_query::ScanPool;

/// Starts the pool: as many threads as this process can use cores.
///
/// # Errors
/// What the operating system says when it gives no thread.
pub(super) fn pool() -> std::io::Result<ScanPool> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Fewer threads than cores there are where a share of the cores is all that this process may use, as in most
    // containers. Then all of these processes would have their threads on the same few cores.
    let cores = Some(allowed()).filter(|cores| cores.len() == threads).unwrap_or_default();
    ScanPool::start(threads, move |number| {
        match cores.get(number) {
            Some(core) => stay_on(&[*core]),
            // An extra thread would stay on the core of the thread that started it.
            None if !cores.is_empty() => stay_on(&cores),
            None => {}
        }
    })
}

/// The numbers of the cores that this process may run on; none where that cannot be told.
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
fn stay_on(cores: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!(%error, ?cores, "a thread that searches cannot stay on a core: it is where the kernel puts it");
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_on(_: &[usize]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_thread_stays_on_its_core() {
        let before = allowed();
        let last = *before.last().unwrap();
        let seen = std::thread::spawn(move || {
            stay_on(&[last]);
            allowed()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert_eq!(allowed(), before);
        drop(pool().unwrap());
        assert_eq!(allowed(), before);
    }
}
