//! What the kernel says about a process.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// Clock ticks a second in `/proc`: 100 on every Linux that Bucksaw runs on, whatever the kernel's own timer does.
const TICKS: f64 = 100.0;

/// Seconds of CPU that a process has used, its own and the kernel's for it. Works until it is waited for.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = stat(pid)?;
    // The eleventh and twelfth after the name: utime and stime.
    let ticks = stat.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / TICKS)
}

/// Nanoseconds of CPU that the threads of a process have used which it still has.
pub(crate) fn cpu_nanos(pid: u32) -> anyhow::Result<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("no process {pid}"))?;
    let mut nanos = 0;
    for thread in threads {
        // One may have ended meanwhile.
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos)
}

/// Seconds of CPU of all children of this process that were waited for, with all of their threads, and the kernel's for
/// them. Fine grained, unlike [`cpu_seconds`].
pub(crate) fn children_cpu_seconds() -> anyhow::Result<f64> {
    usage_seconds(UsageWho::RUSAGE_CHILDREN)
}

/// Seconds of CPU that the calling thread has used, to some milliseconds.
pub(crate) fn thread_cpu_seconds() -> anyhow::Result<f64> {
    usage_seconds(UsageWho::RUSAGE_THREAD)
}

fn usage_seconds(who: UsageWho) -> anyhow::Result<f64> {
    let usage = getrusage(who).context("the kernel does not say what was used")?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Whether it has ended, and only waits to be waited for.
pub(crate) fn has_ended(pid: u32) -> anyhow::Result<bool> {
    Ok(stat(pid)?.starts_with('Z'))
}

/// The fields after the name, which may have anything in it.
fn stat(pid: u32) -> anyhow::Result<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("no process {pid}"))?;
    let (_, fields) = text.rsplit_once(") ").context("/proc/PID/stat is not as expected")?;
    Ok(fields.to_owned())
}

/// The most memory that a process had, in MB.
pub(crate) fn peak_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmHWM:")
}

/// The memory that a process has, in MB.
pub(crate) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmRSS:")
}

fn status_mb(pid: u32, name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("no process {pid}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("/proc/{pid}/status has no {name}"))? * 1024.0 / 1e6)
}

/// What the files below a directory take on the disk, in bytes, as `du` counts.
pub(crate) fn disk_bytes(dir: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { disk_bytes(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_and_threads_used_is_counted() {
        let (thread, children) = (thread_cpu_seconds().unwrap(), children_cpu_seconds().unwrap());
        // The kernel notes what a running thread used at each of its ticks.
        assert!((0..10_000_000).any(|_| thread_cpu_seconds().unwrap() > thread));
        assert!(std::process::Command::new("true").status().unwrap().success());
        assert!(children_cpu_seconds().unwrap() > children);
    }

    #[test]
    fn this_process_is_there() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        assert!(!has_ended(pid).unwrap());
        let (resident, peak) = (resident_mb(pid).unwrap(), peak_mb(pid).unwrap());
        assert!(resident > 0.1 && peak > 0.1, "{resident} {peak}");
    }
}
