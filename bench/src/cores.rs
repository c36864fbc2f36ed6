//! Restricts this thread, and processes that it starts, to one core.

use anyhow::{Context as _, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Restricts this thread and processes that it starts to one core until it is dropped.
#[derive(Debug)]
pub(crate) struct OneCore {
    all: CpuSet,
}

impl OneCore {
    /// Uses the last allowed core: the kernel runs more of its own work on the first.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let all = sched_getaffinity(None).context("the kernel does not say which cores there are")?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| all.is_set(*core));
        let mut one = CpuSet::new();
        one.set(last.context("no core is allowed")?);
        sched_setaffinity(None, &one).context("cannot choose a core")?;
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        ensure!(cores == 1, "one core was chosen, and {cores} can be used");
        Ok(Self { all })
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // Fails only if the allowed cores changed; then the restriction stays.
        let _ = sched_setaffinity(None, &self.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_used_until_drop() {
        let before = sched_getaffinity(None).unwrap();
        let one = OneCore::take().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(one);
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
