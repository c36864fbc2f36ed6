//! Encrypted parts of segment files: `docs/format.md`, "Encrypted parts".
//!
//! Checksums and recovery records cover the encrypted bytes. So damage is found and rebuilt, and files are copied, without
//! keys. A part with a right checksum that does not decrypt was changed on purpose, or moved; it counts as damaged.

use std::sync::{Arc, Mutex};

use bucksaw_env::{File, FileCipher, FileKeys, KeyId, lock};
use bucksaw_record::Id;

use crate::file_header::FileKind;

/// Bytes by which the name of a file, for its key, is longer than its magic: the id.
const NAME_LEN: usize = 24;

/// A part of a stored segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentPart {
    /// The rows column of the block at this offset.
    Rows(u64),
    /// Its text column.
    Text(u64),
    /// Its filter.
    Filter(u64),
    /// The footer, which is there twice.
    Footer,
}

impl SegmentPart {
    /// What an encrypted part is bound to: its kind, and the offset of its block.
    pub(crate) fn context(self) -> [u8; 9] {
        let (kind, offset) = match self {
            Self::Rows(offset) => (1, offset),
            Self::Text(offset) => (2, offset),
            Self::Filter(offset) => (3, offset),
            Self::Footer => (4, 0),
        };
        let mut context = [kind; 9];
        context.iter_mut().skip(1).zip(offset.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        context
    }
}

/// What the key of a file follows from: its kind and its id.
fn key_name(kind: &FileKind, id: Id) -> [u8; NAME_LEN] {
    let mut name = [0; NAME_LEN];
    let bytes = kind.magic.into_iter().chain(id.bits().to_le_bytes());
    name.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    name
}

/// Encrypts a new file; `None` if its file system has no keys.
pub(crate) fn writing_cipher(file: &dyn File, kind: &FileKind, id: Id) -> Option<Arc<dyn FileCipher>> {
    file.keys()?.writer(&key_name(kind, id))
}

/// Why a part cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecryptError {
    /// The key is unknown.
    NoKey(KeyId),
    /// The part was changed, or belongs elsewhere.
    Changed,
}

/// Decrypts the parts of one file.
#[derive(Debug)]
pub(crate) struct Decryptor {
    keys: Option<Arc<dyn FileKeys>>,
    name: [u8; NAME_LEN],
    /// The cipher of the last part: all parts of a file have the same key. Locked briefly, and with no other lock.
    cipher: Mutex<Option<Arc<dyn FileCipher>>>,
}

impl Decryptor {
    pub(crate) fn new(file: &dyn File, kind: &FileKind, id: Id) -> Self {
        Self { keys: file.keys(), name: key_name(kind, id), cipher: Mutex::default() }
    }

    pub(crate) fn decrypt(&self, context: &[u8], encrypted: Vec<u8>) -> Result<Vec<u8>, DecryptError> {
        let key = KeyId::of_part(&encrypted).ok_or(DecryptError::Changed)?;
        let cipher = self.cipher(key).ok_or(DecryptError::NoKey(key))?;
        cipher.decrypt(context, encrypted).ok_or(DecryptError::Changed)
    }

    /// The key of the last part that was decrypted.
    pub(crate) fn key_id(&self) -> Option<KeyId> {
        lock(&self.cipher).as_ref().map(|cipher| cipher.key_id())
    }

    fn cipher(&self, key: KeyId) -> Option<Arc<dyn FileCipher>> {
        let mut known = lock(&self.cipher);
        if let Some(cipher) = known.as_ref().filter(|cipher| cipher.key_id() == key) {
            return Some(Arc::clone(cipher));
        }
        let cipher = self.keys.as_ref()?.reader(key, &self.name)?;
        *known = Some(Arc::clone(&cipher));
        Some(cipher)
    }
}
