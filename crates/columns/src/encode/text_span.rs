//! A part of a text by offset and length.

/// A part of a text of at most 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextSpan {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl TextSpan {
    pub(crate) fn slice(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.start as usize + self.len as usize).unwrap_or_default()
    }
}
