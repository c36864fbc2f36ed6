//! The state that all clients of a memory run share, and what they have in common.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The read timeout of an answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Counts of the answers so far, and the acknowledged records of each writer that has ended.
#[derive(Default)]
pub(super) struct LoadState {
    pub(super) stop: AtomicBool,
    pub(super) answers: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) bombs: AtomicU64,
    pub(super) writers: Mutex<Vec<(String, u64)>>,
}

impl LoadState {
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Reads to the end, and returns the number of bytes.
pub(super) fn drain(source: &mut impl io::Read) -> io::Result<u64> {
    io::copy(source, &mut io::sink())
}

pub(super) fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
