//! Resource usage of processes, from the kernel.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

/// Clock ticks per second in `/proc`: 100 on all supported Linux systems, independent of the kernel's timer frequency.
const TICKS: f64 = 100.0;

/// CPU seconds of a process in user and kernel mode. Works until it is waited for.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = stat(pid)?;
    // The eleventh and twelfth field after the name: utime and stime.
    let ticks = stat.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / TICKS)
}

/// CPU nanoseconds of the threads that a process currently has.
pub(crate) fn cpu_nanos(pid: u32) -> anyhow::Result<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("no process {pid}"))?;
    let mut nanos = 0;
    for thread in threads {
        // The thread may have ended.
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos)
}

/// CPU seconds in user and kernel mode of all child processes that were waited for. More precise than [`cpu_seconds`].
pub(crate) fn children_cpu_seconds() -> anyhow::Result<f64> {
    usage_seconds(UsageWho::RUSAGE_CHILDREN)
}

/// CPU seconds of the calling thread.
pub(crate) fn thread_cpu_seconds() -> anyhow::Result<f64> {
    // The usage of resources counts a thread's time in ticks of the kernel, of milliseconds.
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the clock of the thread is unavailable")?;
    Ok(time.num_nanoseconds() as f64 / 1e9)
}

fn usage_seconds(who: UsageWho) -> anyhow::Result<f64> {
    let usage = getrusage(who).context("resource usage is unavailable")?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Whether a process has exited and was not waited for.
pub(crate) fn has_ended(pid: u32) -> anyhow::Result<bool> {
    Ok(stat(pid)?.starts_with('Z'))
}

/// The fields after the name, which may contain anything.
fn stat(pid: u32) -> anyhow::Result<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("no process {pid}"))?;
    let (_, fields) = text.rsplit_once(") ").context("/proc/PID/stat is not as expected")?;
    Ok(fields.to_owned())
}

/// Bytes that a process has caused to be written to disks.
pub(crate) fn written_bytes(pid: u32) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).with_context(|| format!("no process {pid}"))?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
    bytes.with_context(|| format!("/proc/{pid}/io has no write_bytes"))
}

/// The maximum memory of a process in MB.
pub(crate) fn peak_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmHWM:")
}

/// The memory of a process in MB.
pub(crate) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmRSS:")
}

fn status_mb(pid: u32, name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("no process {pid}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("/proc/{pid}/status has no {name}"))? * 1024.0 / 1e6)
}

/// The disk usage of a directory in bytes, as `du` computes it.
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
    fn cpu_of_children_and_threads_is_counted() {
        let (thread, children) = (thread_cpu_seconds().unwrap(), children_cpu_seconds().unwrap());
        assert!((0..10_000_000).any(|_| thread_cpu_seconds().unwrap() > thread));
        assert!(std::process::Command::new("true").status().unwrap().success());
        assert!(children_cpu_seconds().unwrap() > children);
    }

    #[test]
    fn memory_of_this_process_is_read() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        assert!(!has_ended(pid).unwrap());
        let (resident, peak) = (resident_mb(pid).unwrap(), peak_mb(pid).unwrap());
        assert!(resident > 0.1 && peak > 0.1, "{resident} {peak}");
    }
}
