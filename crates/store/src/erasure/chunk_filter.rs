//! What remains of a chunk.

use std::sync::Arc;

use bucksaw_record::Labels;
use bucksaw_segment::{Chunk, Rows};
use roaring::RoaringBitmap;

/// The records of a chunk that no erasure selects.
#[derive(Clone, Debug)]
pub struct RetainedRows {
    /// Their ids and metadata; may be empty.
    pub rows: Arc<Rows>,
    /// Their text, each followed by an LF.
    pub text: Vec<u8>,
}

impl RetainedRows {
    /// The records as a chunk; `None` without records.
    pub fn chunk<'a>(&'a self, labels: &'a Labels) -> Option<Chunk<'a>> {
        (self.rows.count > 0).then(|| Chunk { labels, rows: Arc::clone(&self.rows), text: &self.text })
    }
}

/// All but the `erased` rows.
pub(super) fn retained(chunk: &Chunk<'_>, erased: &RoaringBitmap) -> RetainedRows {
    let (mut kept, mut text) = (Vec::new(), Vec::with_capacity(chunk.text.len()));
    for (row, record) in (0..).zip(chunk.records()) {
        if !erased.contains(row) {
            kept.push(row);
            text.extend_from_slice(record);
            text.push(b'\n');
        }
    }
    RetainedRows { rows: Arc::new(chunk.rows.select(kept.into_iter())), text }
}
