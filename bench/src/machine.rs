//! The machine of a measurement.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;

/// Names and values for the first columns of the results.
pub(crate) fn about() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    vec![
        ("date", show(Timestamp::now())),
        ("cpu", field("/proc/cpuinfo", "model name")),
        ("cores", cores.to_string()),
        ("memory_gb", memory_gb()),
        ("kernel", first_line("/proc/sys/kernel/osrelease")),
    ]
}

/// When a file was last modified.
pub(crate) fn written(path: &Path) -> anyhow::Result<Timestamp> {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    let modified = modified.with_context(|| format!("the modification time of {} is unknown", path.display()))?;
    Ok(Timestamp::try_from(modified)?)
}

/// The time format of the results.
pub(crate) fn show(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%MZ").to_string()
}

/// The date for file names.
pub(crate) fn date() -> String {
    Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    first_line("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

fn memory_gb() -> String {
    let kib = field("/proc/meminfo", "MemTotal");
    let kib: f64 = kib.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(f64::NAN);
    format!("{:.1}", kib * 1024.0 / 1e9)
}

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
    line.map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}
