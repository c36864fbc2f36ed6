//! How far the inputs were read, as the opaque state of the buffer.
//!
//! A snapshot is entries one after another, each behind its length as a varint. The change that a batch makes is one
//! entry. The first byte of an entry is its kind:
//!
//! ```text
//!   F  a file: its position
//!   J  the journal: the cursor of the last entry, or nothing to read it from its start
//! ```

use std::collections::BTreeMap;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_tailer::{FileKey, FilePosition};

const FILE_KIND: u8 = b'F';
const JOURNAL_KIND: u8 = b'J';

/// The state in a buffer cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is damaged or of another version: remove the directory to start again, which stores lines twice")]
pub(crate) struct StateError;

/// How far the inputs were read, encoded.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    files: BTreeMap<FileKey, Vec<u8>>,
    /// The entry of the journal.
    journal: Option<Vec<u8>>,
}

/// How far the inputs were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveredPositions {
    pub(crate) files: Vec<FilePosition>,
    /// The cursor of the journal; `None` if it was never read.
    pub(crate) journal: Option<Vec<u8>>,
}

impl Positions {
    /// Decodes the state that a buffer recovered: a snapshot, and changes.
    ///
    /// # Errors
    /// [`StateError`] if a part is damaged or of another version.
    pub(crate) fn decode(state: &[Vec<u8>]) -> Result<RecoveredPositions, StateError> {
        let Some((snapshot, changes)) = state.split_first() else { return Ok(RecoveredPositions::default()) };
        let (mut reader, mut entries) = (ByteReader(snapshot), Vec::new());
        while !reader.is_empty() {
            let length = reader.varint_u32().ok_or(StateError)?;
            entries.push(reader.bytes(length as usize).ok_or(StateError)?);
        }
        let (mut files, mut journal) = (BTreeMap::new(), None);
        for entry in entries.into_iter().chain(changes.iter().map(Vec::as_slice)) {
            match entry.split_first() {
                Some((&FILE_KIND, position)) => {
                    let position = FilePosition::decode(position).map_err(|_| StateError)?;
                    files.insert(position.key, position);
                }
                Some((&JOURNAL_KIND, cursor)) => journal = Some(cursor.to_vec()),
                _ => return Err(StateError),
            }
        }
        Ok(RecoveredPositions { files: files.into_values().collect(), journal })
    }

    /// Replaces the positions of all files.
    pub(crate) fn replace<'a>(&mut self, positions: impl Iterator<Item = &'a FilePosition>) {
        self.files = positions.map(|position| (position.key, encode(position))).collect();
    }

    pub(crate) fn insert(&mut self, key: FileKey, encoded: Vec<u8>) {
        self.files.insert(key, encoded);
    }

    /// Sets the entry of the journal.
    pub(crate) fn set_journal(&mut self, encoded: Vec<u8>) {
        self.journal = Some(encoded);
    }

    /// All entries as one state.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for encoded in self.files.values().chain(&self.journal) {
            put_varint(&mut out, encoded.len() as u64);
            out.extend_from_slice(encoded);
        }
        out
    }
}

/// A position as the change that a batch makes.
pub(crate) fn encode(position: &FilePosition) -> Vec<u8> {
    let mut out = vec![FILE_KIND];
    position.encode(&mut out);
    out
}

/// A cursor of the journal as the change that a batch makes.
pub(crate) fn encode_cursor(cursor: &[u8]) -> Vec<u8> {
    [&[JOURNAL_KIND], cursor].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cursor_is_recovered_beside_files() {
        let mut positions = Positions::default();
        assert_eq!(Positions::decode(&[positions.snapshot()]), Ok(RecoveredPositions::default()));
        positions.set_journal(encode_cursor(b""));
        let journal = |state: &[Vec<u8>]| Positions::decode(state).map(|recovered| recovered.journal);
        assert_eq!(journal(&[positions.snapshot()]), Ok(Some(Vec::new())));
        assert_eq!(journal(&[positions.snapshot(), encode_cursor(b"s=1")]), Ok(Some(b"s=1".to_vec())));
        // An entry of another version.
        assert_eq!(journal(&[vec![2, 1, 0]]), Err(StateError));
        assert_eq!(journal(&[vec![7]]), Err(StateError));
        assert_eq!(journal(&[Vec::new(), Vec::new()]), Err(StateError));
    }
}
