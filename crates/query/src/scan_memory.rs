//! The memory of scans at work: a block that is searched is read and unpacked.
//!
//! Each scan states what it needs before it begins, and waits until that is free, in the order in which scans came. One
//! that needs more than there is waits until it is alone, so that each goes on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Memory for scans.
#[derive(Debug)]
pub(crate) struct ScanMemory {
    bytes_max: u64,
    state: Mutex<ScanMemoryState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ScanMemoryState {
    reserved_bytes: u64,
    /// The number of the scan that is next, and that of the next one to come.
    serving_ticket: u64,
    next_ticket: u64,
}

impl ScanMemory {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, ScanMemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `bytes`, which are given back when the result is dropped. A thread takes them once at a time.
    pub(crate) fn reserve(&self, bytes: u64) -> ScanReservation<'_> {
        let bytes = bytes.min(self.bytes_max);
        let mut state = self.state();
        let number = state.next_ticket;
        state.next_ticket += 1;
        while state.serving_ticket != number || state.reserved_bytes.saturating_add(bytes) > self.bytes_max {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.serving_ticket += 1;
        state.reserved_bytes += bytes;
        drop(state);
        self.changed.notify_all();
        ScanReservation { memory: self, bytes }
    }
}

/// Memory that a scan has.
#[derive(Debug)]
pub(crate) struct ScanReservation<'a> {
    memory: &'a ScanMemory,
    bytes: u64,
}

impl Drop for ScanReservation<'_> {
    fn drop(&mut self) {
        self.memory.state().reserved_bytes -= self.bytes;
        self.memory.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn running_scans_stay_within_memory_and_all_progress() {
        let (room, at_work, most) = (ScanMemory::new(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for number in 0..8_u64 {
                let (room, at_work, most) = (&room, &at_work, &most);
                scope.spawn(move || {
                    for turn in 0..200 {
                        // Some need more than there is.
                        let bytes = (number * 31 + turn * 7) % 14;
                        let taken = room.reserve(bytes);
                        let now = at_work.fetch_add(bytes.min(10), Ordering::SeqCst) + bytes.min(10);
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        at_work.fetch_sub(bytes.min(10), Ordering::SeqCst);
                        drop(taken);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((1..=10).contains(&most), "{most}");
        assert_eq!(room.state().reserved_bytes, 0);
    }
}
