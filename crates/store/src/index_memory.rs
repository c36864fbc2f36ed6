//! Memory for what is known of stored segments: their footers, which stay in memory so that a query opens no file in vain.
//!
//! When it is used up, the store takes nothing from queues and other stores; merges and retention go on and make it less. A
//! segment that is being made meanwhile still comes to the store, so a little more may be taken, and the next start allows
//! for that ([`opened_max`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::stored_segment::StoredSegment;

/// How much of the memory is taken.
#[derive(Debug, Default)]
pub struct StoreIndexMemory {
    bytes: AtomicU64,
    /// Three quarters of it.
    is_high: AtomicBool,
    is_full: AtomicBool,
}

impl StoreIndexMemory {
    /// Bytes that are taken, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether three quarters of the memory are taken.
    #[must_use]
    pub fn is_high(&self) -> bool {
        self.is_high.load(Ordering::Relaxed)
    }

    /// Whether all of it is taken: nothing comes to the store.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Looks how much the segments take, and says whether that has become three quarters of the memory.
    pub(crate) fn update(&self, segments: &[Arc<StoredSegment>], max: u64) -> bool {
        let bytes: u64 = segments.iter().map(|segment| segment.index_bytes()).sum();
        // A little less is wanted to begin again than to go on, so that the state does not flutter.
        let max_now = if self.is_full() { max - max / 8 } else { max };
        self.bytes.store(bytes, Ordering::Relaxed);
        self.is_full.store(bytes > max_now, Ordering::Relaxed);
        let is_high = bytes > max / 4 * 3;
        !self.is_high.swap(is_high, Ordering::Relaxed) && is_high
    }
}

/// With how much a store is opened, given how much it may take while it runs. One gathering of streams with very long labels may
/// take half of it; and a node that starts with more than it may take accepts nothing, so all memory for that is free.
pub(crate) fn open_bytes_max(max: u64) -> u64 {
    max.saturating_add(max / 2)
}
