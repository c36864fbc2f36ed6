//! The keys of a process, which may be replaced while files are open.

use std::sync::{Arc, Mutex};

use bucksaw_env::{Entropy, FileCipher, FileKeys, KeyId, lock};

use crate::aes_file_cipher::AesFileCipher;
use crate::{EncryptionKey, KeyList};

/// The keys that the operator names, and those that were named before: files that are open stay readable with them.
#[derive(Debug)]
pub struct KeyRing {
    /// Locked briefly, and with no other lock.
    keys: Mutex<RingKeys>,
    /// Draws the random part of nonces.
    entropy: Arc<dyn Entropy>,
}

#[derive(Debug)]
struct RingKeys {
    named: KeyList,
    former: Vec<EncryptionKey>,
}

impl KeyRing {
    /// A ring with these keys.
    pub fn new(keys: KeyList, entropy: Arc<dyn Entropy>) -> Self {
        Self { keys: Mutex::new(RingKeys { named: keys, former: Vec::new() }), entropy }
    }

    /// Replaces the keys. Returns the ids of those that are no longer named.
    pub fn replace(&self, named: KeyList) -> Vec<KeyId> {
        let mut keys = lock(&self.keys);
        let before = std::mem::replace(&mut keys.named, named).keys;
        keys.former.extend(before);
        let RingKeys { named, former } = &mut *keys;
        former.retain(|key| named.keys.iter().all(|named| named.id() != key.id()));
        former.dedup_by_key(|key| key.id());
        former.iter().map(EncryptionKey::id).collect()
    }

    fn cipher(&self, key: &EncryptionKey, file: &[u8]) -> Option<Arc<dyn FileCipher>> {
        let derived = key.file_key(file)?;
        Some(Arc::new(AesFileCipher::new(key.id(), derived, self.entropy.next_u64())))
    }
}

impl FileKeys for KeyRing {
    fn writing_key(&self) -> Option<KeyId> {
        lock(&self.keys).named.keys.first().map(EncryptionKey::id)
    }

    fn is_named(&self, key: KeyId) -> bool {
        lock(&self.keys).named.keys.iter().any(|named| named.id() == key)
    }

    fn writer(&self, file: &[u8]) -> Option<Arc<dyn FileCipher>> {
        let key = lock(&self.keys).named.keys.first().cloned()?;
        self.cipher(&key, file)
    }

    fn reader(&self, key: KeyId, file: &[u8]) -> Option<Arc<dyn FileCipher>> {
        let keys = lock(&self.keys);
        let known = keys.named.keys.iter().chain(&keys.former).find(|known| known.id() == key).cloned();
        drop(keys);
        self.cipher(&known?, file)
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_env::sim;

    use super::*;

    fn list(keys: &[u8]) -> KeyList {
        KeyList { keys: keys.iter().map(|key| EncryptionKey::new(&[*key; 32])).collect() }
    }

    fn id(key: u8) -> KeyId {
        EncryptionKey::new(&[key; 32]).id()
    }

    #[test]
    fn the_first_key_writes_and_all_that_were_named_read() {
        let ring = KeyRing::new(list(&[1]), Arc::new(sim::Entropy::seeded(1)));
        let old = ring.writer(b"file").unwrap().encrypt(b"", &[b"text"]).unwrap();
        assert_eq!(ring.replace(list(&[2, 1])), []);
        assert_eq!((ring.writing_key(), ring.is_named(id(1))), (Some(id(2)), true));
        let new = ring.writer(b"file").unwrap();
        assert_eq!(new.key_id(), id(2));
        assert_eq!(new.decrypt(b"", old.clone()), None);
        // A key that is no longer named decrypts until the process ends.
        assert_eq!(ring.replace(list(&[2])), [id(1)]);
        assert!(!ring.is_named(id(1)));
        assert_eq!(ring.reader(id(1), b"file").unwrap().decrypt(b"", old), Some(b"text".to_vec()));
        assert!(ring.reader(id(3), b"file").is_none());
        assert_eq!(ring.replace(list(&[1])), [id(2)]);
    }
}
