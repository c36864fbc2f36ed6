//! Which cores this thread, and every process that it starts from then on, may run on.

use anyhow::{Context as _, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread and what it starts run on one core while this is held.
#[derive(Debug)]
pub(crate) struct OneCore {
    all: CpuSet,
}

impl OneCore {
    /// Takes the last of the cores that may be used: the first has more of the kernel's own work to do.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let all = sched_getaffinity(None).context("the kernel does not say which cores there are")?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| all.is_set(*core));
        let mut one = CpuSet::new();
        one.set(last.context("there is no core")?);
        sched_setaffinity(None, &one).context("cannot choose a core")?;
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        ensure!(cores == 1, "one core was chosen, and {cores} can be used");
        Ok(Self { all })
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // They could be used before; where they no longer can, one core is what is left.
        let _ = sched_setaffinity(None, &self.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_taken_and_given_back() {
        let before = sched_getaffinity(None).unwrap();
        let one = OneCore::take().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(one);
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
