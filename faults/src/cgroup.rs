//! Limits the CPU or the memory of processes with a control group.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cleanup_guard::CleanupGuard;

/// Period of the CPU limit in microseconds: short, so that no process waits long.
const PERIOD_US: u64 = 50_000;

/// The weight of the group, in cgroup v1 and v2. High, so that the group gets its limit whatever else the machine
/// runs.
const SHARES: &str = "262144";
const WEIGHT: &str = "10000";

/// A control group. Dropping it removes it; its processes must have ended.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// A group limited to hundredths of a core, for all its processes together.
    pub(crate) fn new(name: &str, percent: u64, cleanup: &CleanupGuard) -> anyhow::Result<Self> {
        let quota = PERIOD_US * percent / 100;
        let old = [
            ("cpu.cfs_period_us", PERIOD_US.to_string()),
            ("cpu.cfs_quota_us", quota.to_string()),
            ("cpu.shares", SHARES.to_owned()),
        ];
        let new = [("cpu.max", format!("{quota} {PERIOD_US}")), ("cpu.weight", WEIGHT.to_owned())];
        Self::make(name, "cpu", &old, &new, cleanup)
    }

    /// A group limited to `bytes` of memory without swap, for all its processes together.
    pub(crate) fn with_memory_limit(name: &str, bytes: u64, cleanup: &CleanupGuard) -> anyhow::Result<Self> {
        let old = [("memory.limit_in_bytes", bytes.to_string())];
        let new = [("memory.max", bytes.to_string())];
        let group = Self::make(name, "memory", &old, &new, cleanup)?;
        // A kernel without swap accounting has no such file.
        for (file, value) in [("memory.memsw.limit_in_bytes", bytes), ("memory.swap.max", 0)] {
            if group.0.join(file).exists() {
                let _ = fs::write(group.0.join(file), value.to_string());
            }
        }
        Ok(group)
    }

    /// Creates a group of a controller, with its settings in cgroup v1 or v2.
    fn make(
        name: &str,
        controller: &str,
        old: &[(&str, String)],
        new: &[(&str, String)],
        cleanup: &CleanupGuard,
    ) -> anyhow::Result<Self> {
        let name = format!("bucksaw-faults-{}-{name}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let has_new = fs::read_to_string(root.join("cgroup.subtree_control")).is_ok_and(|had| had.contains(controller));
        let (dir, settings) = if root.join(controller).is_dir() {
            (root.join(controller).join(name), old)
        } else if has_new {
            (root.join(name), new)
        } else {
            bail!("no control groups for {controller}: this needs root, and Linux with cgroups");
        };
        fs::create_dir(&dir).with_context(|| format!("cannot make {}: this needs root", dir.display()))?;
        cleanup.register_undo(&format!("rmdir {}", dir.display()));
        let group = Self(dir);
        for (file, value) in settings {
            fs::write(group.0.join(file), value).with_context(|| format!("cannot set {file}"))?;
        }
        Ok(group)
    }

    /// The memory use of a group created by [`Self::with_memory_limit`].
    pub(crate) fn usage(&self) -> anyhow::Result<MemoryUsage> {
        let read = |name: &str| fs::read_to_string(self.0.join(name)).unwrap_or_default();
        let number = |name: &str| read(name).trim().parse::<u64>().ok();
        let stat = read("memory.stat");
        let events = read("memory.events") + &read("memory.oom_control");
        let anonymous = field(&stat, "rss").or_else(|| field(&stat, "anon"));
        Ok(MemoryUsage {
            anonymous: anonymous.context("memory.stat does not say how much is anonymous")?,
            total: number("memory.usage_in_bytes").or_else(|| number("memory.current")).unwrap_or_default(),
            peak: number("memory.max_usage_in_bytes").or_else(|| number("memory.peak")).unwrap_or_default(),
            killed: field(&events, "oom_kill").unwrap_or_default(),
        })
    }

    /// The file to which a process writes its id to join the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

/// Memory use of a group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// Anonymous memory, which cannot be reclaimed.
    pub(crate) anonymous: u64,
    /// All charged memory, including the page cache.
    pub(crate) total: u64,
    /// The maximum of the charged memory.
    pub(crate) peak: u64,
    /// Processes killed by the kernel.
    pub(crate) killed: u64,
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Fails while a process is left. Such a group remains until the next boot.
        let _ = fs::remove_dir(&self.0);
    }
}
