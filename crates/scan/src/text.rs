//! Bytes that are looked for as they are.

use memchr::{memchr, memmem};

use crate::records::Span;

/// A needle, prepared once for the whole query.
#[derive(Debug)]
pub(crate) struct Text {
    finder: memmem::Finder<'static>,
    /// Whether the needle has an LF, and so may be found where one record ends and the next starts.
    has_lf: bool,
}

impl Text {
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

    pub(crate) fn is_in(&self, record: &[u8]) -> bool {
        self.finder.find(record).is_some()
    }

    /// The start of the first record at or after `from` that contains the needle.
    pub(crate) fn seek(&self, span: &Span<'_>, from: usize) -> Option<usize> {
        if self.has_lf {
            return if span.records.are_lines() { None } else { self.seek_within(span, from) };
        }
        let hit = from + self.finder.find(span.records.text.get(from..span.end)?)?;
        Some(span.records.start_of(from, hit))
    }

    /// The same for a needle with an LF: the LF between records may not be taken for one inside.
    fn seek_within(&self, span: &Span<'_>, mut from: usize) -> Option<usize> {
        let records = span.records;
        loop {
            let hit = from + self.finder.find(records.text.get(from..span.end)?)?;
            let start = records.start_of(from, hit);
            if hit + self.len() < records.next(start) {
                return Some(start);
            }
            // Whatever starts later in this record reaches over its end too.
            from = records.next(start);
        }
    }
}
