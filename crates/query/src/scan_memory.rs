//! Memory of running scans, for the blocks that they read and decode.
//!
//! Before it starts, a scan reserves its estimated memory and waits until that is free, in order of arrival. A scan
//! that needs more than the limit runs alone, so every scan runs eventually.

use std::sync::{Condvar, Mutex, PoisonError};

use bucksaw_env::lock;

/// Limits the memory of running scans.
#[derive(Debug)]
pub(crate) struct ScanMemory {
    bytes_max: u64,
    state: Mutex<ScanMemoryState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ScanMemoryState {
    reserved_bytes: u64,
    /// The ticket that is served next, and the next ticket to give out.
    serving_ticket: u64,
    next_ticket: u64,
}

impl ScanMemory {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for `bytes`, which are free again when the result is dropped. A thread holds one reservation at a time.
    pub(crate) fn reserve(&self, bytes: u64) -> ScanReservation<'_> {
        let bytes = bytes.min(self.bytes_max);
        let mut state = lock(&self.state);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        while state.serving_ticket != ticket || state.reserved_bytes.saturating_add(bytes) > self.bytes_max {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.serving_ticket += 1;
        state.reserved_bytes += bytes;
        drop(state);
        self.changed.notify_all();
        ScanReservation { memory: self, bytes }
    }
}

/// Memory of one scan.
#[derive(Debug)]
pub(crate) struct ScanReservation<'a> {
    memory: &'a ScanMemory,
    bytes: u64,
}

impl Drop for ScanReservation<'_> {
    fn drop(&mut self) {
        lock(&self.memory.state).reserved_bytes -= self.bytes;
        self.memory.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn running_scans_stay_within_memory_and_all_progress() {
        let (memory, used, used_max) = (ScanMemory::new(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for number in 0..8_u64 {
                let (memory, used, used_max) = (&memory, &used, &used_max);
                scope.spawn(move || {
                    for turn in 0..200 {
                        // Some need more than the limit.
                        let bytes = (number * 31 + turn * 7) % 14;
                        let reservation = memory.reserve(bytes);
                        let now = used.fetch_add(bytes.min(10), Ordering::SeqCst) + bytes.min(10);
                        used_max.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        used.fetch_sub(bytes.min(10), Ordering::SeqCst);
                        drop(reservation);
                    }
                });
            }
        });
        let used_max = used_max.into_inner();
        assert!((1..=10).contains(&used_max), "{used_max}");
        assert_eq!(lock(&memory.state).reserved_bytes, 0);
    }
}
