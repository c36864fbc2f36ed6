//! Encryption of files at rest: keys, and a file system that hands them to its files.
//!
//! ```text
//!   key file ──► KeyList ──► KeyRing ──► EncryptedFs ──► File::keys()
//!                              │
//!                key of a file = HKDF-SHA256(key, kind and id of the file)
//!                part of a file = AES-256-GCM(key of the file, nonce, plain bytes; bound to the place of the part)
//! ```
//! The formats decide which of their parts are encrypted: `docs/format.md`, "Encrypted parts". Why it is built this way:
//! `docs/adr/encryption-at-rest.md`.
//!
//! A nonce has 8 random bytes, drawn when a file is opened for writing, and a counter. So it does not repeat under the key of
//! a file, although a file with the same id may be written anew: after a crash, or by a repair.
//!
//! ```
//! use std::sync::Arc;
//! use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
//! use bucksaw_env::{Fs as _, sim};
//!
//! let keys = KeyList::parse(b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
//! let ring = Arc::new(KeyRing::new(keys, Arc::new(sim::Entropy::seeded(1))));
//! let fs = EncryptedFs::new(Arc::new(sim::Fs::new()), ring);
//! let file = fs.create("segment".as_ref()).unwrap();
//! let cipher = file.keys().and_then(|keys| keys.writer(b"segment 7")).unwrap();
//! let encrypted = cipher.encrypt(b"block 0", &[b"a line\n"]).unwrap();
//! assert_eq!(cipher.decrypt(b"block 0", encrypted.clone()), Some(b"a line\n".to_vec()));
//! assert_eq!(cipher.decrypt(b"block 1", encrypted), None);
//! ```
#![deny(clippy::indexing_slicing)]

mod aes_file_cipher;
mod encrypted_fs;
mod encryption_key;
mod key_list;
mod key_ring;

pub use encrypted_fs::EncryptedFs;
pub use encryption_key::EncryptionKey;
pub use key_list::{KEY_TEXT_BYTES_MAX, KEYS_MAX, KeyList, KeyListError};
pub use key_ring::KeyRing;
