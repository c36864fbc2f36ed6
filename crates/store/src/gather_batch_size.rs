//! The size of the next batch, learned from those before: halved when a batch does not fit on the disk, and grown by an
//! eighth after each one that does.

use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum bytes of text of the next batch.
#[derive(Debug)]
pub(crate) struct GatherBatchSize {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl GatherBatchSize {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(bytes_max), bytes_max }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A batch of `text_bytes` was stored. The next may be an eighth larger: a batch that is too large is wasted work.
    pub(crate) fn grow(&self, text_bytes: u64) {
        let bytes = text_bytes.max(self.bytes());
        self.bytes.store(bytes.saturating_add(bytes.div_ceil(8)).min(self.bytes_max), Ordering::Relaxed);
    }

    /// A batch of `text_bytes` did not fit.
    pub(crate) fn shrink(&self, text_bytes: u64) {
        self.bytes.store((text_bytes.min(self.bytes()) / 2).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_halved_until_they_fit_and_grow_again() {
        let batch = GatherBatchSize::new(1_000);
        batch.shrink(1_200);
        assert_eq!(batch.bytes(), 500);
        batch.shrink(300);
        assert_eq!(batch.bytes(), 150);
        (0..20).for_each(|_| batch.shrink(100));
        assert_eq!(batch.bytes(), 1);
        batch.grow(400);
        assert_eq!(batch.bytes(), 450);
        (0..7).for_each(|_| batch.grow(1));
        assert_eq!(batch.bytes(), 1_000);
    }
}
