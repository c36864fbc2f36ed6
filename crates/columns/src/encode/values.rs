//! The values of a column before encoding: spans of one text.

use crate::encode::text_span::TextSpan;

/// What a line is to its writer, so that lines are compared with their like: 0 for the line of a record, another number for the
/// value of an attribute of one name. Lines of different classes share no table.
pub type LineClass = u16;

/// The values of a column by row.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    text: &'a [u8],
    starts: &'a [u32],
    /// The start of what follows each value, and the number of bytes between.
    next_starts: &'a [u32],
    separator_bytes: u32,
}

impl<'a> Values<'a> {
    /// Values that start at `starts` and end `gap` bytes before the offset in `nexts`.
    pub(crate) fn new(text: &'a [u8], starts: &'a [u32], nexts: &'a [u32], gap: usize) -> Self {
        Self { text, starts, next_starts: nexts, separator_bytes: gap as u32 }
    }

    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn span(&self, row: usize) -> TextSpan {
        TextSpan { start: self.starts[row], len: self.next_starts[row] - self.separator_bytes - self.starts[row] }
    }

    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        self.span(row).slice(self.text)
    }

    pub(crate) fn spans(self) -> impl Iterator<Item = TextSpan> + Clone + 'a {
        let gap = self.separator_bytes;
        self.starts
            .iter()
            .zip(self.next_starts)
            .map(move |(start, next)| TextSpan { start: *start, len: next - gap - start })
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        let text = self.text;
        self.spans().map(move |span| span.slice(text))
    }

    /// The length of all values together.
    pub(crate) fn bytes(self) -> usize {
        self.spans().map(|span| span.len as usize).sum()
    }
}

/// Values copied from a text, an LF after each.
#[derive(Debug, Default)]
pub(crate) struct ValueBuffer {
    bytes: Vec<u8>,
    /// The offset 0, then the offset behind the LF of each value.
    ends: Vec<u32>,
}

/// Values of up to this many bytes are copied without a call.
const INLINE_COPY_BYTES: usize = 16;

impl ValueBuffer {
    /// Appends a copy of a span.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8], span: TextSpan) {
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        let end = self.bytes.len() + span.len as usize;
        match text.get(span.start as usize..).and_then(<[u8]>::first_chunk::<INLINE_COPY_BYTES>) {
            Some(short) if span.len as usize <= INLINE_COPY_BYTES => {
                self.bytes.extend_from_slice(short);
                self.bytes.truncate(end);
            }
            _ => self.bytes.extend_from_slice(span.slice(text)),
        }
        self.bytes.push(b'\n');
        self.ends.push(end as u32 + 1);
    }

    /// Reserves memory for `more` values, of about `expected` in total and of the average length so far.
    pub(crate) fn reserve(&mut self, more: usize, expected: usize) {
        let value = self.bytes.len() / self.len().max(1) + 1;
        reserve(&mut self.ends, more + 1, expected);
        reserve(&mut self.bytes, more * value, expected * value);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    pub(crate) fn values(&self) -> Values<'_> {
        let (starts, ends) = (&self.ends[..self.len()], self.ends.get(1..).unwrap_or_default());
        Values::new(&self.bytes, starts, ends, 1)
    }

    /// The values, an LF after each.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The values, an LF after each.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reserves memory for `more` items, of about `expected` in total.
pub(crate) fn reserve<Item>(list: &mut Vec<Item>, more: usize, expected: usize) {
    if list.capacity() - list.len() < more {
        // A margin, because an estimate slightly too low would move the whole list.
        list.reserve_exact(more.max((expected + expected / 16).saturating_sub(list.len())).max(list.len() / 2));
    }
}
