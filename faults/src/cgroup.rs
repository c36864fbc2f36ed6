//! A fraction of a core for a process, by a control group.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::minder::Minder;

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
    pub(crate) fn new(name: &str, percent: u64, minder: &Minder) -> anyhow::Result<Self> {
        let quota = PERIOD_US * percent / 100;
        let name = format!("bucksaw-faults-{}-{name}", std::process::id());
        let old = Path::new("/sys/fs/cgroup/cpu");
        let new = Path::new("/sys/fs/cgroup");
        let has_new = fs::read_to_string(new.join("cgroup.subtree_control")).is_ok_and(|had| had.contains("cpu"));
        let (dir, settings) = if old.is_dir() {
            let settings = vec![
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
                ("cpu.shares", SHARES.to_owned()),
            ];
            (old.join(name), settings)
        } else if has_new {
            (new.join(name), vec![("cpu.max", format!("{quota} {PERIOD_US}")), ("cpu.weight", WEIGHT.to_owned())])
        } else {
            bail!("no control group for processors: this needs root, and Linux with cgroups");
        };
        fs::create_dir(&dir).with_context(|| format!("cannot make {}: this needs root", dir.display()))?;
        minder.note(&format!("rmdir {}", dir.display()));
        let group = Self(dir);
        for (file, value) in settings {
            fs::write(group.0.join(file), value).with_context(|| format!("cannot set {file}"))?;
        }
        Ok(group)
    }

    /// A process that writes its id there belongs to the group.
    pub(crate) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // One that still has a process stays: the machine's next start clears it.
        let _ = fs::remove_dir(&self.0);
    }
}
