//! Limits for a process, by a control group: a fraction of a core, or memory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cleanup_guard::CleanupGuard;

/// Over how many microseconds the fraction is meant: often enough that nobody waits for long.
const PERIOD_US: u64 = 50_000;

/// How much the group counts beside others that want the same core, by the old and the new interface: what it may use it gets,
/// whatever else the machine does.
const SHARES: &str = "262144";
const WEIGHT: &str = "10000";

/// A group that is removed when this is dropped; its processes have ended by then.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// A group whose processes have so many hundredths of a core, all together.
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

    /// A group whose processes have `bytes` of memory, all together, and no swap.
    pub(crate) fn with_memory_limit(name: &str, bytes: u64, cleanup: &CleanupGuard) -> anyhow::Result<Self> {
        let old = [("memory.limit_in_bytes", bytes.to_string())];
        let new = [("memory.max", bytes.to_string())];
        let group = Self::make(name, "memory", &old, &new, cleanup)?;
        // Where the kernel does not count swap there is nothing to limit.
        for (file, value) in [("memory.memsw.limit_in_bytes", bytes), ("memory.swap.max", 0)] {
            if group.0.join(file).exists() {
                let _ = fs::write(group.0.join(file), value.to_string());
            }
        }
        Ok(group)
    }

    /// A group of a controller, with settings by its old or its new interface.
    fn make(
        name: &str,
        controller: &str,
        old: &[(&str, String)],
        new: &[(&str, String)],
        minder: &CleanupGuard,
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
        minder.register_undo(&format!("rmdir {}", dir.display()));
        let group = Self(dir);
        for (file, value) in settings {
            fs::write(group.0.join(file), value).with_context(|| format!("cannot set {file}"))?;
        }
        Ok(group)
    }

    /// What a group of [`Self::of_memory`] uses.
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

    /// A process that writes its id there belongs to the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

/// What the processes of a group use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// Memory that no file stands behind, which cannot be reclaimed.
    pub(crate) anonymous: u64,
    /// All that counts, with what the kernel keeps of files.
    pub(crate) total: u64,
    /// The most that counted.
    pub(crate) peak: u64,
    /// How many processes the kernel has killed.
    pub(crate) killed: u64,
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // One that still has a process stays: the machine's next start clears it.
        let _ = fs::remove_dir(&self.0);
    }
}
