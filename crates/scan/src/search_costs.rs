//! What searches of text cost in a query, counted in work instead of time, so that equal runs decide alike.
//!
//! A block can be searched as columns or, if its text is in memory, as text. Which way is cheaper depends on the question: a rare
//! word in few columns, or a regex that meets thousands of small ones. A query does not know before it has searched a block. So it
//! searches columns with a limit, the work of a search of the text, and searches the text where that is exceeded. It does not try
//! the columns of further blocks until the text has turned out to cost more than the columns were allowed.
//!
//! One unit of work is the time in which a rare text is searched for in one byte that no cache of the processor has: about 0.07 ns.
//! `docs/performance.md` says how the weights were measured.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of text for which rates are given: a rate of 1 per byte is too coarse.
const RATE_BYTES: u64 = 1024;

/// The rate of text grows by one part in this many before columns are tried again.
const RETRY_DIVISOR: u64 = 4;

/// The costs of a query so far, shared by its threads.
#[derive(Debug)]
pub struct SearchCosts {
    /// A hash of the expression.
    question: u64,
    /// The expected work per [`RATE_BYTES`] of text.
    expected_rate: AtomicU64,
    text_bytes: AtomicU64,
    text_work: AtomicU64,
    /// The highest limit, as a rate, that a search of columns exceeded.
    columns_rate: AtomicU64,
}

impl SearchCosts {
    /// No costs yet; `question` is a hash of the expression, and searching text is expected to take `text_weight` units per byte.
    pub(crate) fn new(question: u64, text_weight: u64) -> Self {
        Self {
            question,
            expected_rate: AtomicU64::new(text_weight * RATE_BYTES),
            text_bytes: AtomicU64::new(0),
            text_work: AtomicU64::new(0),
            columns_rate: AtomicU64::new(0),
        }
    }

    /// A hash of the expression, by which its costs in earlier queries are found.
    #[must_use]
    pub fn question(&self) -> u64 {
        self.question
    }

    pub(crate) fn add_text(&self, bytes: usize, work: u64) {
        self.text_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.text_work.fetch_add(work, Ordering::Relaxed);
    }

    /// The work per KiB of the text that this query searched; `None` if it was less than a KiB.
    #[must_use]
    pub fn measured_text_rate(&self) -> Option<u64> {
        let bytes = self.text_bytes.load(Ordering::Relaxed) / RATE_BYTES;
        self.text_work.load(Ordering::Relaxed).checked_div(bytes)
    }

    /// Expects text to take what it took in an earlier query.
    pub fn expect_text_rate(&self, rate: u64) {
        self.expected_rate.store(rate, Ordering::Relaxed);
    }

    /// Work per [`RATE_BYTES`] of text: as measured in this query, else as expected.
    fn text_rate(&self) -> u64 {
        self.measured_text_rate().unwrap_or_else(|| self.expected_rate.load(Ordering::Relaxed))
    }

    /// The expected work of a search of `bytes` of text.
    #[must_use]
    pub fn of_text(&self, bytes: u64) -> u64 {
        self.text_rate().saturating_mul(bytes / RATE_BYTES + 1)
    }

    /// The work that a search of columns may take before the search of their text, of `bytes`, is cheaper; `None` if the text
    /// is to be searched at once.
    #[must_use]
    pub fn columns_work_max(&self, bytes: u64) -> Option<u64> {
        let exceeded = self.columns_rate.load(Ordering::Relaxed);
        (exceeded == 0 || self.text_rate() > exceeded + exceeded / RETRY_DIVISOR).then(|| self.of_text(bytes))
    }

    /// Remembers that a search of columns exceeded the limit.
    pub fn note_dear_columns(&self) {
        self.columns_rate.fetch_max(self.text_rate().max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_searched_after_dear_columns_until_it_is_dearer() {
        let costs = SearchCosts::new(0, 2);
        let max = 2 * (1 << 20) + 2 * RATE_BYTES;
        assert_eq!((costs.of_text(1 << 20), costs.columns_work_max(1 << 20)), (max, Some(max)));
        costs.note_dear_columns();
        assert_eq!(costs.columns_work_max(1 << 20), None);
        // The text costs what was estimated, then ten times as much.
        costs.add_text(1 << 20, 2 << 20);
        assert_eq!(costs.columns_work_max(1 << 20), None);
        costs.add_text(1 << 20, 38 << 20);
        assert_eq!(costs.columns_work_max(1 << 20), Some(costs.of_text(1 << 20)));
        assert!(costs.of_text(1 << 20) > 20 << 20);
        costs.note_dear_columns();
        assert_eq!(costs.columns_work_max(1 << 20), None);
    }

    #[test]
    fn text_is_expected_to_take_what_it_took_before_until_it_is_measured() {
        let costs = SearchCosts::new(0, 2);
        assert_eq!((costs.measured_text_rate(), costs.of_text(0)), (None, 2 * RATE_BYTES));
        costs.expect_text_rate(5_000);
        assert_eq!((costs.measured_text_rate(), costs.of_text(0)), (None, 5_000));
        costs.add_text(1 << 20, 3 << 20);
        assert_eq!((costs.measured_text_rate(), costs.of_text(0)), (Some(3 * RATE_BYTES), 3 * RATE_BYTES));
    }
}
