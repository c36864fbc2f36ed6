//! Chunks: records of one stream with contiguous text, the input of a search.

use std::sync::Arc;

use bucksaw_record::Labels;
use memchr::memchr;

use crate::Rows;

/// A view of records of one stream.
#[derive(Clone, Debug)]
pub struct Chunk<'a> {
    /// The stream.
    pub labels: &'a Labels,
    /// Ids and metadata by row.
    pub rows: Arc<Rows>,
    /// The records, each followed by an LF.
    pub text: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// The records in order, without the LF after each.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let text = self.text;
        let lengths = self.rows.lengths.as_ref().map(|_| Arc::clone(&self.rows));
        let mut at = 0;
        (0..self.rows.count).map_while(move |row| {
            let rest = text.get(at..)?;
            let length = match lengths.as_ref().and_then(|rows| rows.lengths.as_ref()) {
                Some(lengths) => *lengths.get(row as usize)? as usize,
                None => memchr(b'\n', rest)?,
            };
            at += length + 1;
            rest.get(..length)
        })
    }
}

/// Bytes of text of the next `count` rows, including LFs; `lengths` begins with the next row.
pub(crate) fn rows_text_len(text: &[u8], lengths: Option<&[u32]>, count: u32) -> Option<usize> {
    if let Some(lengths) = lengths {
        return lengths.get(..count as usize).map(|part| part.iter().map(|length| *length as usize + 1).sum());
    }
    match count {
        0 => Some(0),
        _ => memchr::memchr_iter(b'\n', text).nth(count as usize - 1).map(|last| last + 1),
    }
}
