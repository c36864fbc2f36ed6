//! The encryption of a store, as its status: which key each file is under, and segments without their keys.

use bucksaw_env::KeyId;
use bucksaw_record::Millis;

/// A segment whose key the node does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeylessSegment {
    /// The file's name in the store's directory.
    pub name: String,
    /// The time of its first record.
    pub low: Millis,
    /// The time of its last record.
    pub high: Millis,
    /// The key that it is encrypted with.
    pub key: KeyId,
    /// Bytes of its file.
    pub bytes: u64,
}

/// What is encrypted with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    /// The key; `None` for what is not encrypted.
    pub key: Option<KeyId>,
    /// Segments, keyless ones included.
    pub segments: u64,
    /// Files of erasures.
    pub erasures: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Whether new files are written with it.
    pub is_writing: bool,
    /// Whether the operator names it. One that is not named is unknown after a restart.
    pub is_named: bool,
}

/// The encryption of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// What is encrypted with which key: the one that writes first, then the others, then what is not encrypted. Empty if nothing
    /// is encrypted and nothing will be.
    pub keys: Vec<KeyUsage>,
    /// Segments whose key the node does not have, by name.
    pub keyless: Vec<KeylessSegment>,
}
