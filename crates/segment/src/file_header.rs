//! The header of both kinds of segment files: magic, version, checksum and id.

use std::path::Path;

use bucksaw_binary::ByteReader;
use bucksaw_env::File;
use bucksaw_record::Id;

use crate::ReadError;

/// The bit of the version of a file whose parts are encrypted. Older programs refuse such a version.
const ENCRYPTED_BIT: u32 = 0x100;

/// Bytes of the header.
pub(crate) const HEADER_LEN: usize = 32;

/// What the header of a segment file states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The id of the segment.
    pub id: Id,
    /// The version of its format, with a bit more if its parts are encrypted.
    pub version: u32,
}

impl FileHeader {
    /// The version of its format.
    pub fn content_version(self) -> u32 {
        self.version & !ENCRYPTED_BIT
    }

    /// Whether its parts are encrypted.
    pub fn is_encrypted(self) -> bool {
        self.version & ENCRYPTED_BIT != 0
    }

    /// The header with the bit for encrypted parts as stated.
    #[must_use]
    pub fn with_encryption(self, is_encrypted: bool) -> Self {
        let bit = if is_encrypted { ENCRYPTED_BIT } else { 0 };
        Self { version: self.content_version() | bit, ..self }
    }
}

/// A kind of file, and the newest version of its format that is known.
pub(crate) struct FileKind {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    /// The damage of a file with another magic.
    pub(crate) mismatch: &'static str,
}

impl FileKind {
    /// The first bytes of a file.
    pub(crate) fn encode_header(&self, header: FileHeader) -> [u8; HEADER_LEN] {
        let FileHeader { id, version } = header;
        let crc = header_checksum(&self.magic, version, id);
        let fields = [&self.magic[..], &version.to_le_bytes(), &crc.to_le_bytes(), &id.bits().to_le_bytes()];
        let mut bytes = [0; HEADER_LEN];
        bytes.iter_mut().zip(fields.into_iter().flatten()).for_each(|(place, byte)| *place = *byte);
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`ReadError`] if the file is of another kind or a newer version, or its header is damaged.
    pub(crate) fn read_header(&self, file: &dyn File, path: &Path) -> Result<FileHeader, ReadError> {
        let mut bytes = [0; HEADER_LEN];
        let length = file.read_at(0, &mut bytes).map_err(ReadError::io(path))?;
        let mut reader = ByteReader(bytes.get(..length).unwrap_or_default());
        let fields = (reader.bytes(8), reader.u32(), reader.u32(), reader.u128().map(Id::from_bits));
        let (Some(magic), Some(version), Some(crc), Some(id)) = fields else {
            return Err(ReadError::damaged(path, 0, "the file ends within its header"));
        };
        if magic != self.magic {
            return Err(ReadError::damaged(path, 0, self.mismatch));
        }
        if header_checksum(magic, version, id) != crc {
            return Err(ReadError::damaged(path, 12, "the checksum of the header is wrong"));
        }
        let header = FileHeader { id, version };
        if header.content_version() > self.version {
            return Err(ReadError::Version { path: path.to_owned(), found: version, known: self.version });
        }
        Ok(header)
    }
}

/// The seed of the checksums inside a file. With it, a log line that contains a frame or record of another file is not
/// mistaken for one of this file.
pub(crate) fn checksum_seed(id: Id) -> u32 {
    crc32c::crc32c(&id.bits().to_le_bytes())
}

fn header_checksum(magic: &[u8], version: u32, id: Id) -> u32 {
    let parts = [magic, &version.to_le_bytes(), &id.bits().to_le_bytes()];
    parts.into_iter().fold(0, crc32c::crc32c_append)
}
