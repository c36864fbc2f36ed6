//! Text terms: bytes that a record must contain.

use bucksaw_search::Needle;
use memchr::memchr;

use crate::record_boundaries::ScanWindow;

/// A text, compiled once per plan.
#[derive(Debug)]
pub(crate) struct TextTerm {
    pub(crate) needle: Needle,
    /// Whether the text contains an LF, so that an occurrence in a chunk may span two records.
    has_lf: bool,
}

impl TextTerm {
    /// `bytes` are not empty.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { needle: Needle::new(bytes, false), has_lf: memchr(b'\n', bytes).is_some() }
    }

    pub(crate) fn len(&self) -> usize {
        self.needle.text().len()
    }

    pub(crate) fn matches_record(&self, record: &[u8]) -> bool {
        self.needle.find(record, 0).is_some()
    }

    /// The start of the first record at or after `from` that contains the text.
    pub(crate) fn seek(&self, window: &ScanWindow<'_>, from: usize) -> Option<usize> {
        if self.has_lf {
            return if window.records.is_line_per_record() { None } else { self.seek_across_lines(window, from) };
        }
        let hit = self.needle.find(window.records.text.get(..window.end)?, from)?;
        Some(window.records.record_start(from, hit))
    }

    /// The same for a text with an LF, which must not match the LF between two records.
    fn seek_across_lines(&self, window: &ScanWindow<'_>, mut from: usize) -> Option<usize> {
        let records = window.records;
        loop {
            let hit = self.needle.find(records.text.get(..window.end)?, from)?;
            let start = records.record_start(from, hit);
            if hit + self.len() < records.next_start(start) {
                return Some(start);
            }
            // A later occurrence in this record crosses its end too.
            from = records.next_start(start);
        }
    }
}
