//! What an answer rests on.

use std::collections::BTreeSet;

/// What was read for an answer, and what is missing from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records in the answer.
    pub matched: u64,
    /// Segments of which at least one part was read.
    pub segments_read: u64,
    /// Segments that could be passed over whole.
    pub segments_skipped: u64,
    /// Bytes of text that were searched.
    pub bytes_scanned: u64,
    /// Bytes of text that could be passed over.
    pub bytes_skipped: u64,
    /// Files, or parts of them, that could not be read: records may be missing from the answer.
    pub damaged: BTreeSet<String>,
}

impl Stats {
    /// Whether records may be missing from the answer.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.damaged.is_empty()
    }

    /// Why records may be missing, in sentences.
    #[must_use]
    pub fn partial_reasons(&self) -> Vec<String> {
        self.damaged.iter().map(|name| format!("{name} is damaged and was left out")).collect()
    }
}
