//! Bytes that are looked for as they are.

use memchr::{memchr, memmem};

use crate::record_boundaries::ScanWindow;

/// A needle, prepared once for the whole query.
#[derive(Debug)]
pub(crate) struct TextTerm {
    finder: memmem::Finder<'static>,
    /// Whether the needle has an LF, and so may be found where one record ends and the next starts.
    has_lf: bool,
}

impl TextTerm {
    /// A needle that is not empty.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { finder: memmem::Finder::new(bytes).into_owned(), has_lf: memchr(b'\n', bytes).is_some() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.finder.needle()
    }

    pub(crate) fn len(&self) -> usize {
        self.finder.needle().len()
    }

    pub(crate) fn matches_record(&self, record: &[u8]) -> bool {
        self.finder.find(record).is_some()
    }

    /// The start of the first record at or after `from` that contains the needle.
    pub(crate) fn seek(&self, span: &ScanWindow<'_>, from: usize) -> Option<usize> {
        if self.has_lf {
            return if span.records.is_line_per_record() { None } else { self.seek_across_lines(span, from) };
        }
        let hit = from + self.finder.find(span.records.text.get(from..span.end)?)?;
        Some(span.records.record_start(from, hit))
    }

    /// The same for a needle with an LF: the LF between records may not be taken for one inside.
    fn seek_across_lines(&self, span: &ScanWindow<'_>, mut from: usize) -> Option<usize> {
        let records = span.records;
        loop {
            let hit = from + self.finder.find(records.text.get(from..span.end)?)?;
            let start = records.record_start(from, hit);
            if hit + self.len() < records.next_start(start) {
                return Some(start);
            }
            // Whatever starts later in this record reaches over its end too.
            from = records.next_start(start);
        }
    }
}
