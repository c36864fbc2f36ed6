//! Chunks: records of one stream with contiguous text, the input of a search.

use std::sync::Arc;

use bucksaw_record::Labels;
use memchr::{memchr, memchr_iter};

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
    /// The records in order, without the LF after each, the values of their attributes included.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (text, rows) = (self.text, Arc::clone(&self.rows));
        let mut at = 0;
        (0..self.rows.count).map_while(move |row| {
            let rest = text.get(at..)?;
            let length = lines_end(rest, rows.lines(row))?;
            at += length;
            rest.get(..length - 1)
        })
    }
}

/// The end of the first `count` lines, behind their last LF; `None` if there are fewer.
pub fn lines_end(text: &[u8], count: u32) -> Option<usize> {
    let end = match count {
        0 => return Some(0),
        1 => memchr(b'\n', text),
        _ => memchr_iter(b'\n', text).nth(count as usize - 1),
    };
    end.map(|end| end + 1)
}
