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
