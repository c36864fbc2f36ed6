//! Memory of the index: the footers of all stored segments, kept in memory so that queries open only files that they need.
//!
//! When it is used up, the store accepts nothing from queues and other stores; merges and retention continue and reduce it.
//! Segments that are being written meanwhile may exceed the limit a little, which the next start allows for
//! ([`open_bytes_max`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::stored_segment::StoredSegment;

/// Use of the index memory.
#[derive(Debug, Default)]
pub(crate) struct StoreIndexMemory {
    bytes: AtomicU64,
    /// At least three quarters are used.
    is_high: AtomicBool,
    is_full: AtomicBool,
}

impl StoreIndexMemory {
    /// Approximate bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether three quarters of the memory are used.
    pub(crate) fn is_high(&self) -> bool {
        self.is_high.load(Ordering::Relaxed)
    }

    /// Whether all of it is used, so that the store accepts nothing.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Measures the index of `segments`; returns whether it has newly reached three quarters of `max`.
    pub(crate) fn update(&self, segments: &[Arc<StoredSegment>], max: u64) -> bool {
        let bytes: u64 = segments.iter().map(|segment| segment.index_bytes()).sum();
        // Hysteresis: an eighth must be free before the store accepts again.
        let max_now = if self.is_full() { max - max / 8 } else { max };
        self.bytes.store(bytes, Ordering::Relaxed);
        self.is_full.store(bytes > max_now, Ordering::Relaxed);
        let is_high = bytes > max / 4 * 3;
        !self.is_high.swap(is_high, Ordering::Relaxed) && is_high
    }
}

/// The index memory with which a store may be opened, given its maximum at run time. One batch of streams with very long
/// labels may need half of the maximum. A node that starts above its maximum accepts nothing, so that memory is free.
pub(crate) fn open_bytes_max(max: u64) -> u64 {
    max.saturating_add(max / 2)
}
