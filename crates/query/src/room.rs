//! The memory of scans at work: a block that is searched is read and unpacked.
//!
//! Each scan states what it needs before it begins, and waits until that is free, in the order in which scans came. One
//! that needs more than there is waits until it is alone, so that each goes on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Memory for scans.
#[derive(Debug)]
pub(crate) struct Room {
    bytes_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    /// The number of the scan that is next, and that of the next one to come.
    next: u64,
    coming: u64,
}

impl Room {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `bytes`, which are given back when the result is dropped. A thread takes them once at a time.
    pub(crate) fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = bytes.min(self.bytes_max);
        let mut state = self.state();
        let number = state.coming;
        state.coming += 1;
        while state.next != number || state.taken.saturating_add(bytes) > self.bytes_max {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next += 1;
        state.taken += bytes;
        drop(state);
        self.changed.notify_all();
        Taken { room: self, bytes }
    }
}

/// Memory that a scan has.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.room.state().taken -= self.bytes;
        self.room.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn scans_at_work_keep_within_the_memory_and_all_go_on() {
        let (room, at_work, most) = (Room::new(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for number in 0..8_u64 {
                let (room, at_work, most) = (&room, &at_work, &most);
                scope.spawn(move || {
                    for turn in 0..200 {
                        // Some need more than there is.
                        let bytes = (number * 31 + turn * 7) % 14;
                        let taken = room.take(bytes);
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
        assert_eq!(room.state().taken, 0);
    }
}
