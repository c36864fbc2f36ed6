//! Limits the CPU, the memory or the disk writes of processes with a control group.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::cleanup_guard::CleanupGuard;

/// The weight of the group, in cgroup v1 and v2. High, so that the group gets its limit whatever else the machine
/// runs.
const SHARES: &str = "262144";
const WEIGHT: &str = "10000";

/// A control group. Dropping it removes it; its processes must have ended.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// A group limited to hundredths of a core, for all its processes together.
    ///
    /// A process that has used the share of a period waits for the next one, so a short `period` makes short pauses.
    ///
    /// # Errors
    /// No permission (this needs root), no such controller, or a quota that the kernel refuses: below 1 ms per period.
    pub fn with_cpu_limit(name: &str, percent: u64, period: Duration, cleanup: &CleanupGuard) -> anyhow::Result<Self> {
        let period = period.as_micros() as u64;
        let quota = period * percent / 100;
        let old = [
            ("cpu.cfs_period_us", period.to_string()),
            ("cpu.cfs_quota_us", quota.to_string()),
            ("cpu.shares", SHARES.to_owned()),
        ];
        let new = [("cpu.max", format!("{quota} {period}")), ("cpu.weight", WEIGHT.to_owned())];
        Self::make(name, ["cpu", "cpu"], &old, &new, cleanup)
    }

    /// A group limited to `bytes_per_second` of writes to the block device of a directory, for all its processes together.
    ///
    /// With cgroup v1 the limit holds for writes that a process itself waits for, as those of a sync, and not for those that the
    /// kernel writes back later.
    ///
    /// # Errors
    /// No permission (this needs root), no such controller, or a directory that is on no block device.
    pub fn with_write_limit(
        name: &str,
        dir: &Path,
        bytes_per_second: u64,
        cleanup: &CleanupGuard,
    ) -> anyhow::Result<Self> {
        let device = block_device(dir)?;
        let old = [("blkio.throttle.write_bps_device", format!("{device} {bytes_per_second}"))];
        let new = [("io.max", format!("{device} wbps={bytes_per_second}"))];
        Self::make(name, ["blkio", "io"], &old, &new, cleanup)
    }

    /// A group limited to `bytes` of memory without swap, for all its processes together.
    pub(crate) fn with_memory_limit(name: &str, bytes: u64, cleanup: &CleanupGuard) -> anyhow::Result<Self> {
        let old = [("memory.limit_in_bytes", bytes.to_string())];
        let new = [("memory.max", bytes.to_string())];
        let group = Self::make(name, ["memory", "memory"], &old, &new, cleanup)?;
        // A kernel without swap accounting has no such file.
        for (file, value) in [("memory.memsw.limit_in_bytes", bytes), ("memory.swap.max", 0)] {
            if group.0.join(file).exists() {
                let _ = fs::write(group.0.join(file), value.to_string());
            }
        }
        Ok(group)
    }

    /// Creates a group of a controller, whose names are those of cgroup v1 and v2, with its settings in either.
    fn make(
        name: &str,
        [old_controller, new_controller]: [&str; 2],
        old: &[(&str, String)],
        new: &[(&str, String)],
        cleanup: &CleanupGuard,
    ) -> anyhow::Result<Self> {
        let name = format!("bucksaw-{}-{name}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let (dir, settings) = if root.join(old_controller).is_dir() {
            (root.join(old_controller).join(name), old)
        } else if enabled.split_whitespace().any(|controller| controller == new_controller) {
            (root.join(name), new)
        } else {
            bail!("no control groups for {new_controller}: this needs root, and Linux with cgroups");
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

    /// A command that joins the group and becomes the program whose name and arguments follow, with the same process id.
    #[must_use]
    pub fn launcher(&self) -> Vec<String> {
        launcher(&self.procs())
    }
}

/// The launcher of a group with this file of processes.
pub(crate) fn launcher(procs: &Path) -> Vec<String> {
    ["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs.to_string_lossy()].map(str::to_owned).to_vec()
}

/// The block device of a directory, as `major:minor`; of a partition, the disk, which is what can be limited.
fn block_device(dir: &Path) -> anyhow::Result<String> {
    let device = fs::metadata(dir).with_context(|| format!("no directory {}", dir.display()))?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let entry = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
    let entry = entry.with_context(|| format!("{} is on no block device", dir.display()))?;
    let disk = if entry.join("partition").exists() { entry.parent().unwrap_or(&entry) } else { &entry };
    let name = fs::read_to_string(disk.join("dev")).with_context(|| format!("{} has no number", disk.display()))?;
    ensure!(name.contains(':'), "{} is no device number", name.trim());
    Ok(name.trim().to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_whole_names() {
        let text = "rss_huge 7\nrss 42\noom_kill 1\n";
        assert_eq!((field(text, "rss"), field(text, "oom_kill"), field(text, "oom")), (Some(42), Some(1), None));
    }

    #[test]
    fn a_launcher_joins_first_and_keeps_all_arguments() {
        let procs = tempfile::NamedTempFile::new().unwrap();
        let launcher = launcher(procs.path());
        let (program, arguments) = launcher.split_first().unwrap();
        let child = std::process::Command::new(program)
            .args(arguments)
            .args(["sh", "-c", "echo $$ \"$1\"", "sh", "two words"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{id} two words\n"));
        assert_eq!(fs::read_to_string(procs.path()).unwrap(), format!("{id}\n"));
    }

    #[test]
    fn directories_on_no_block_device_have_none() {
        assert!(block_device(Path::new("/proc")).is_err());
        assert!(block_device(Path::new("/nonexistent")).is_err());
    }
}
