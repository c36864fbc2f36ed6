//! The values of a column before they are encoded: pieces of one text.

use crate::cut::Span;

/// A column of a table of spans, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    text: &'a [u8],
    spans: &'a [Span],
    width: usize,
    column: usize,
}

impl<'a> Values<'a> {
    /// The column `column` of a table whose rows have `width` spans each.
    pub(crate) fn new(text: &'a [u8], spans: &'a [Span], width: usize, column: usize) -> Self {
        Self { text, spans, width, column }
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len() / self.width
    }

    pub(crate) fn span(&self, row: usize) -> Span {
        self.spans[row * self.width + self.column]
    }

    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        self.span(row).of(self.text)
    }

    pub(crate) fn spans(self) -> impl Iterator<Item = Span> + Clone + 'a {
        self.spans.iter().skip(self.column).step_by(self.width).copied()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        let text = self.text;
        self.spans().map(move |span| span.of(text))
    }
}
