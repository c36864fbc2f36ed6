//! How far a file was read, and how the file is recognised after a restart.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_env::FileIdentity;

use crate::fingerprint::{ANCHOR_BYTES_MAX, Anchor, Fingerprint};

/// The version of the encoding.
const VERSION: u8 = 1;

/// Bits of the flags.
const FINISHED: u8 = 1;
const COMPRESSED: u8 = 2;
const GAP_COUNTED: u8 = 4;

/// The longest path that is decoded, in bytes. Linux opens no longer ones.
const PATH_BYTES_MAX: usize = 4_096;

/// Numbers the files that an agent knows. No number is used twice, also after restarts, unless the wall clock is set back
/// while no position is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

/// How far a file was read. It is kept on disk together with what was read, so that reading resumes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The number of the file.
    pub key: FileKey,
    /// The path by which the file was first found. It stays the same when the file is rotated. A rotated file outside the
    /// patterns has the path of the file that it was.
    pub path: PathBuf,
    /// Which file it is, while it exists.
    pub identity: FileIdentity,
    /// The first bytes of the file.
    pub fingerprint: Fingerprint,
    /// The number of consumed bytes; of the decompressed text if the file is compressed.
    pub offset: u64,
    /// The bytes before the offset.
    pub anchor: Anchor,
    /// The length of the file when it was last read. Not below the offset, except in a compressed file.
    pub size: u64,
    /// When the file was last changed, as of the last scan that found it under its path, in milliseconds since 1970. No file
    /// that was created there later has an earlier time.
    pub modified_ms: u64,
    /// Whether the file ended: it was rotated or deleted, and read to its end.
    pub is_finished: bool,
    /// Whether the file with the number is the compressed form of the text. If the file ended, that form was read to its end too.
    pub is_compressed: bool,
    /// Whether the rest of the file is a gap that was counted. The size is then what was read.
    pub is_gap_counted: bool,
}

/// The bytes are no position of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file position is damaged or of a later version")]
pub struct PositionError;

impl FilePosition {
    /// The position after `text`, which follows it in the file.
    #[must_use]
    pub fn after(&self, text: &[u8]) -> Self {
        let anchor = self.anchor.followed_by(text);
        Self { offset: self.offset + text.len() as u64, anchor, ..self.clone() }
    }

    /// Appends the position as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        let flags =
            [(self.is_finished, FINISHED), (self.is_compressed, COMPRESSED), (self.is_gap_counted, GAP_COUNTED)];
        out.push(flags.iter().map(|(is_set, flag)| u8::from(*is_set) * flag).sum());
        for number in [self.key.0, self.identity.device, self.identity.inode, self.offset, self.size, self.modified_ms]
        {
            put_varint(out, number);
        }
        out.extend_from_slice(&(self.fingerprint.length() as u16).to_le_bytes());
        out.extend_from_slice(&self.fingerprint.hash().to_le_bytes());
        put_bytes(out, self.anchor.as_bytes());
        put_bytes(out, self.path.as_os_str().as_bytes());
    }

    /// Reads a position that [`Self::encode`] wrote. The bytes must end with it.
    ///
    /// # Errors
    /// [`PositionError`] if the bytes are anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, PositionError> {
        let mut reader = ByteReader(bytes);
        let position = Self::read(&mut reader).ok_or(PositionError)?;
        if reader.is_empty() { Ok(position) } else { Err(PositionError) }
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        (reader.u8()? == VERSION).then_some(())?;
        let flags = reader.u8()?;
        (flags & !(FINISHED | COMPRESSED | GAP_COUNTED) == 0).then_some(())?;
        let [is_finished, is_compressed, is_gap_counted] =
            [FINISHED, COMPRESSED, GAP_COUNTED].map(|flag| flags & flag != 0);
        let key = FileKey(reader.varint()?);
        let identity = FileIdentity { device: reader.varint()?, inode: reader.varint()? };
        let (offset, size, modified_ms) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let fingerprint = Fingerprint::from_parts(reader.u16()?, reader.u64()?)?;
        let anchor = Anchor::of(read_bytes(reader, ANCHOR_BYTES_MAX)?);
        // An anchor is whole: a shorter one would be compared with the wrong bytes.
        (anchor.as_bytes().len() as u64 == offset.min(ANCHOR_BYTES_MAX as u64)).then_some(())?;
        // Offsets of files are signed in the interfaces of operating systems.
        (offset.max(size) <= i64::MAX.cast_unsigned()).then_some(())?;
        let path = PathBuf::from(OsString::from_vec(read_bytes(reader, PATH_BYTES_MAX)?.to_vec()));
        Some(Self {
            key,
            path,
            identity,
            fingerprint,
            offset,
            anchor,
            size,
            modified_ms,
            is_finished,
            is_compressed,
            is_gap_counted,
        })
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_bytes<'a>(reader: &mut ByteReader<'a>, length_max: usize) -> Option<&'a [u8]> {
    let length = usize::try_from(reader.varint()?).ok().filter(|length| *length <= length_max)?;
    reader.bytes(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn position(offset: u64, text: &[u8], path: &[u8]) -> FilePosition {
        FilePosition {
            key: FileKey(7),
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
            identity: FileIdentity { device: 1 << 40, inode: 300 },
            fingerprint: Fingerprint::of(text),
            offset,
            anchor: Anchor::of(&vec![b'x'; offset.min(64) as usize]),
            size: offset + 3,
            modified_ms: 1_700_000_000_000,
            is_finished: offset % 2 == 1,
            is_compressed: offset % 3 == 1,
            is_gap_counted: offset % 5 == 1,
        }
    }

    proptest! {
        #[test]
        fn positions_round_trip(offset in 0..1_u64 << 50, text: Vec<u8>, path in prop::collection::vec(any::<u8>(), 0..80)) {
            let position = position(offset, &text, &path);
            let mut bytes = Vec::new();
            position.encode(&mut bytes);
            prop_assert_eq!(FilePosition::decode(&bytes), Ok(position));
            for end in 0..bytes.len() {
                prop_assert_eq!(FilePosition::decode(&bytes[..end]), Err(PositionError));
            }
            bytes.push(0);
            prop_assert_eq!(FilePosition::decode(&bytes), Err(PositionError));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            drop(FilePosition::decode(&bytes));
        }
    }

    #[test]
    fn a_position_moves_with_its_anchor() {
        let start = position(0, b"", b"a");
        assert_eq!(start.after(b"one\n").after(b"two\n"), start.after(b"one\ntwo\n"));
        assert_eq!((start.after(b"one\n").offset, start.after(b"one\n").anchor.as_bytes()), (4, &b"one\n"[..]));
    }
}
