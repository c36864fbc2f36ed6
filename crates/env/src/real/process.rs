//! What this process uses.

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

/// The processor time of all threads since the start, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The memory in use in bytes; `None` where the kernel does not report it.
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}
