//! The values of a column before they are encoded: pieces of one text.

use crate::cut::Span;

/// A column, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    text: &'a [u8],
    starts: &'a [u32],
    /// Where what comes after each value starts, and how many bytes lie between.
    nexts: &'a [u32],
    gap: u32,
}

impl<'a> Values<'a> {
    /// Values that start at `starts`, each with `gap` bytes between it and what starts at its place in `nexts`.
    pub(crate) fn new(text: &'a [u8], starts: &'a [u32], nexts: &'a [u32], gap: usize) -> Self {
        Self { text, starts, nexts, gap: gap as u32 }
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Some rows: `count` from `first` on, or as many as there are.
    pub(crate) fn part(self, first: usize, count: usize) -> Self {
        let end = self.len().min(first + count);
        Self { starts: &self.starts[first..end], nexts: &self.nexts[first..end], ..self }
    }

    pub(crate) fn span(&self, row: usize) -> Span {
        Span { start: self.starts[row], len: self.nexts[row] - self.gap - self.starts[row] }
    }

    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        self.span(row).of(self.text)
    }

    pub(crate) fn spans(self) -> impl Iterator<Item = Span> + Clone + 'a {
        let gap = self.gap;
        self.starts.iter().zip(self.nexts).map(move |(start, next)| Span { start: *start, len: next - gap - start })
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        let text = self.text;
        self.spans().map(move |span| span.of(text))
    }

    /// Bytes of all values.
    pub(crate) fn bytes(self) -> usize {
        self.spans().map(|span| span.len as usize).sum()
    }
}

/// Values that were picked from a column.
#[derive(Debug, Default)]
pub(crate) struct Picked {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Picked {
    pub(crate) fn push(&mut self, span: Span) {
        self.starts.push(span.start);
        self.ends.push(span.start + span.len);
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn get<'a>(&self, at: usize, text: &'a [u8]) -> &'a [u8] {
        text.get(self.starts[at] as usize..self.ends[at] as usize).unwrap_or_default()
    }

    pub(crate) fn values<'a>(&'a self, text: &'a [u8]) -> Values<'a> {
        Values::new(text, &self.starts, &self.ends, 0)
    }
}
