//! The positions in all files as the opaque state of the buffer.
//!
//! A snapshot is the positions one after another, each behind its length as a varint. The change that a batch makes is
//! the position in its file after it.

use std::collections::BTreeMap;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_tailer::{FileKey, FilePosition, PositionError};

/// The encoded positions of all files.
#[derive(Debug, Default)]
pub(crate) struct Positions(BTreeMap<FileKey, Vec<u8>>);

impl Positions {
    /// Decodes the state that a buffer recovered: a snapshot, and changes.
    ///
    /// # Errors
    /// [`PositionError`] if a part is damaged or of a later version.
    pub(crate) fn decode(state: &[Vec<u8>]) -> Result<Vec<FilePosition>, PositionError> {
        let mut positions = BTreeMap::new();
        let Some((snapshot, changes)) = state.split_first() else { return Ok(Vec::new()) };
        let mut reader = ByteReader(snapshot);
        while !reader.is_empty() {
            let length = reader.varint_u32().ok_or(PositionError)?;
            let position = FilePosition::decode(reader.bytes(length as usize).ok_or(PositionError)?)?;
            positions.insert(position.key, position);
        }
        for change in changes {
            let position = FilePosition::decode(change)?;
            positions.insert(position.key, position);
        }
        Ok(positions.into_values().collect())
    }

    /// Replaces all positions.
    pub(crate) fn replace<'a>(&mut self, positions: impl Iterator<Item = &'a FilePosition>) {
        self.0 = positions.map(|position| (position.key, encode(position))).collect();
    }

    pub(crate) fn insert(&mut self, key: FileKey, encoded: Vec<u8>) {
        self.0.insert(key, encoded);
    }

    /// All positions as one state.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for encoded in self.0.values() {
            put_varint(&mut out, encoded.len() as u64);
            out.extend_from_slice(encoded);
        }
        out
    }
}

/// A position as the change that a batch makes.
pub(crate) fn encode(position: &FilePosition) -> Vec<u8> {
    let mut out = Vec::new();
    position.encode(&mut out);
    out
}
