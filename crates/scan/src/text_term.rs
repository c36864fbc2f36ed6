//! Text terms: bytes that a record must contain.

use bucksaw_record::RecordView;
use bucksaw_search::Needle;
use memchr::memchr;

use crate::record_boundaries::{OCCURRENCE_WORK, ScanWindow, any_part};

/// A text, compiled once per plan.
#[derive(Debug)]
pub(crate) struct TextTerm {
    pub(crate) needle: Needle,
    /// Whether the text contains an LF, so that an occurrence in a chunk may span two records.
    pub(crate) has_lf: bool,
}

impl TextTerm {
    /// `bytes` are not empty.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { needle: Needle::new(bytes, false), has_lf: memchr(b'\n', bytes).is_some() }
    }

    pub(crate) fn len(&self) -> usize {
        self.needle.text().len()
    }

    pub(crate) fn matches_text(&self, text: &[u8]) -> bool {
        self.needle.find(text, 0).is_some()
    }

    pub(crate) fn matches_record(&self, record: RecordView<'_>) -> bool {
        // A text without an LF is in one part of the record at most.
        if self.has_lf { any_part(record, |part| self.matches_text(part)) } else { self.matches_text(record.text()) }
    }

    /// The longest line of the text; every record that contains the text contains it.
    pub(crate) fn longest_line(&self) -> Needle {
        let lines = self.needle.text().split(|byte| *byte == b'\n');
        Needle::new(lines.max_by_key(|line| line.len()).unwrap_or_default(), false)
    }

    /// The start of the first record at or after `from` that contains the text.
    pub(crate) fn seek(&self, window: &ScanWindow<'_>, from: usize) -> Option<usize> {
        window.add_work(OCCURRENCE_WORK);
        if self.has_lf {
            return if window.records.is_line_per_part { None } else { self.seek_across_lines(window, from) };
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
            // An occurrence may cross the end of the record or of one of its parts.
            if self.matches_record(records.record(start)) {
                return Some(start);
            }
            from = records.next_start(start);
        }
    }
}
