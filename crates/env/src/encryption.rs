//! The keys with which the content of files is encrypted, as traits. `bucksaw-crypt` implements them.
//!
//! A file system hands its keys to each file ([`File::keys`](crate::File::keys)), so that the writer and the
//! reader of a format have them, and no interface in between passes them on. The bytes of a file stay as they are: the format decides which parts of it
//! are encrypted.
//!
//! ```text
//!   an encrypted part      8 bytes key id · 12 bytes nonce · ciphertext, as long as the plain bytes · 16 bytes tag
//! ```

use std::fmt;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Bytes by which an encrypted part is longer than its plain bytes.
pub const ENCRYPTION_OVERHEAD: usize = KeyId::LEN + 12 + 16;

/// Names an encryption key without revealing it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; Self::LEN]);

impl KeyId {
    /// Bytes of an id.
    pub const LEN: usize = 8;

    /// The id at the start of an encrypted part; `None` if it is too short to be one.
    pub fn of_part(encrypted: &[u8]) -> Option<Self> {
        encrypted.first_chunk().filter(|_| encrypted.len() >= ENCRYPTION_OVERHEAD).map(|id| Self(*id))
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The encryption keys of a node. They may be replaced while files are open.
pub trait FileKeys: Send + Sync + Debug {
    /// The key with which new files are encrypted; `None` if they are not.
    fn writing_key(&self) -> Option<KeyId>;

    /// Whether the operator still names a key. One that was named before can be read with until the process ends.
    fn is_named(&self, key: KeyId) -> bool;

    /// Encrypts a new file. `file` is unique to the file: its kind and its id. `None` if new files are not encrypted.
    fn writer(&self, file: &[u8]) -> Option<Arc<dyn FileCipher>>;

    /// Decrypts a file that was encrypted with `key`; `None` if the key is unknown.
    fn reader(&self, key: KeyId, file: &[u8]) -> Option<Arc<dyn FileCipher>>;
}

/// Encrypts and decrypts the parts of one file.
pub trait FileCipher: Send + Sync + Debug {
    /// The key that the key of the file follows from.
    fn key_id(&self) -> KeyId;

    /// Encrypts bytes, given in pieces, as one part. `context` is what the part is bound to, such as its place in the file.
    ///
    /// # Errors
    /// If 2³² parts were encrypted since the file was opened, or the part is too long.
    fn encrypt(&self, context: &[u8], plain: &[&[u8]]) -> io::Result<Vec<u8>>;

    /// The plain bytes of a part; `None` if the part was changed, or belongs to another place, file or key.
    fn decrypt(&self, context: &[u8], encrypted: Vec<u8>) -> Option<Vec<u8>>;
}
