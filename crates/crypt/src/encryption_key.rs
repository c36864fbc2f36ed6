//! A key of 256 bits, and the keys of files that follow from it.

use std::fmt;

use bucksaw_env::KeyId;
use ring::{aead, digest, hkdf};

/// What the hash of a key's id begins with, so that it is equal to no other hash of the key.
const ID_PREFIX: &[u8] = b"bucksaw encryption key id";

/// The salt of HKDF: constant, as a key is random already.
const HKDF_SALT: &[u8] = b"bucksaw encryption at rest";

/// A key from which the keys of files follow. Its bytes are never shown.
#[derive(Clone)]
pub struct EncryptionKey {
    id: KeyId,
    extracted: hkdf::Prk,
}

impl EncryptionKey {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// A key with these bytes.
    pub fn new(bytes: &[u8; Self::LEN]) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(ID_PREFIX);
        hash.update(bytes);
        let mut id = [0; KeyId::LEN];
        id.iter_mut().zip(hash.finish().as_ref()).for_each(|(place, byte)| *place = *byte);
        Self { id: KeyId(id), extracted: hkdf::Salt::new(hkdf::HKDF_SHA256, HKDF_SALT).extract(bytes) }
    }

    /// The id: the first bytes of a hash of the key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The key of a file. Never `None`, as the length is one that HKDF gives.
    pub(crate) fn file_key(&self, file: &[u8]) -> Option<aead::LessSafeKey> {
        let info = [file];
        let derived = self.extracted.expand(&info, &aead::AES_256_GCM).ok()?;
        Some(aead::LessSafeKey::new(aead::UnboundKey::from(derived)))
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({})", self.id)
    }
}
