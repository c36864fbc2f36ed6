//! What a tailer delivers.

use std::path::Path;
use std::time::Duration;

use crate::position::{FileKey, FilePosition};

/// Bytes of a file that were not consumed yet. The sink consumes as many as it wants, in whole lines or events; the rest is
/// delivered again with what follows.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileChunk<'a> {
    /// The file.
    pub key: FileKey,
    /// Its path, which stays the same when it is rotated.
    pub path: &'a Path,
    /// The bytes from the position on. Empty only if `is_end`.
    pub text: &'a [u8],
    /// Whether nothing will follow: the file was rotated, deleted or truncated, and this is its end. It need not end with a
    /// line end. The end is delivered once all of the text is consumed, or again.
    pub is_end: bool,
    /// Whether the text has the greatest length. The sink must consume a part of it, although it may be one incomplete line;
    /// otherwise no more of the file is read.
    pub is_full: bool,
    /// For how long the text has not grown; zero if it has grown in this turn.
    pub waited: Duration,
    pub(crate) position: &'a FilePosition,
}

impl FileChunk<'_> {
    /// The offset of the text in the file; of the decompressed text if the file is compressed.
    pub fn offset(&self) -> u64 {
        self.position.offset
    }

    /// The position after the first `consumed` bytes of the text, which the sink persists with them.
    pub fn position_after(&self, consumed: usize) -> FilePosition {
        let mut position = self.position.after(self.text.get(..consumed).unwrap_or(self.text));
        position.is_finished = self.is_end && consumed >= self.text.len();
        position
    }
}
