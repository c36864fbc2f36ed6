//! AES-256-GCM with the key of one file.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::{ENCRYPTION_OVERHEAD, FileCipher, KeyId};
use ring::aead;

/// Bytes before the ciphertext: key id and nonce.
const HEAD_LEN: usize = KeyId::LEN + aead::NONCE_LEN;

const _: () = assert!(HEAD_LEN + 16 == ENCRYPTION_OVERHEAD);

/// Encrypts and decrypts the parts of one file.
pub(crate) struct AesFileCipher {
    key_id: KeyId,
    key: aead::LessSafeKey,
    /// The first bytes of every nonce: random, drawn for this opening of the file.
    nonce_prefix: u64,
    /// The last bytes of the next nonce.
    counter: AtomicU64,
}

impl AesFileCipher {
    pub(crate) fn new(key_id: KeyId, key: aead::LessSafeKey, nonce_prefix: u64) -> Self {
        Self { key_id, key, nonce_prefix, counter: AtomicU64::new(0) }
    }

    fn next_nonce(&self) -> io::Result<[u8; aead::NONCE_LEN]> {
        let number = u32::try_from(self.counter.fetch_add(1, Ordering::Relaxed));
        let number = number.map_err(|_| io::Error::other("the nonces of the file are used up"))?;
        let mut nonce = [0; aead::NONCE_LEN];
        let bytes = self.nonce_prefix.to_le_bytes().into_iter().chain(number.to_le_bytes());
        nonce.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        Ok(nonce)
    }
}

impl FileCipher for AesFileCipher {
    fn key_id(&self) -> KeyId {
        self.key_id
    }

    fn encrypt(&self, context: &[u8], plain: &[&[u8]]) -> io::Result<Vec<u8>> {
        let nonce = self.next_nonce()?;
        let length: usize = plain.iter().map(|piece| piece.len()).sum();
        let mut out = Vec::with_capacity(length + ENCRYPTION_OVERHEAD);
        out.extend_from_slice(&self.key_id.0);
        out.extend_from_slice(&nonce);
        plain.iter().for_each(|piece| out.extend_from_slice(piece));
        let text = out.get_mut(HEAD_LEN..).unwrap_or_default();
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, aead::Aad::from(context), text);
        let tag =
            tag.map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the part is too long to be encrypted"))?;
        out.extend_from_slice(tag.as_ref());
        Ok(out)
    }

    fn decrypt(&self, context: &[u8], mut encrypted: Vec<u8>) -> Option<Vec<u8>> {
        if KeyId::of_part(&encrypted)? != self.key_id {
            return None;
        }
        let nonce = aead::Nonce::try_assume_unique_for_key(encrypted.get(KeyId::LEN..HEAD_LEN)?).ok()?;
        let opened = self.key.open_within(nonce, aead::Aad::from(context), &mut encrypted, HEAD_LEN..).ok()?;
        let length = opened.len();
        encrypted.truncate(length);
        Some(encrypted)
    }
}

impl std::fmt::Debug for AesFileCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AesFileCipher({})", self.key_id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::EncryptionKey;

    fn cipher(key: u8, file: &[u8], nonce_prefix: u64) -> AesFileCipher {
        let key = EncryptionKey::new(&[key; 32]);
        AesFileCipher::new(key.id(), key.file_key(file).unwrap(), nonce_prefix)
    }

    proptest! {
        #[test]
        fn parts_round_trip(plain in prop::collection::vec(any::<u8>(), 0..300), split in 0_usize..300, context: [u8; 9]) {
            let writer = cipher(1, b"file", 5);
            let (left, right) = plain.split_at(split.min(plain.len()));
            let encrypted = writer.encrypt(&context, &[left, right]).unwrap();
            prop_assert_eq!(encrypted.len(), plain.len() + ENCRYPTION_OVERHEAD);
            prop_assert_eq!(KeyId::of_part(&encrypted), Some(writer.key_id()));
            // A later opening of the file draws another prefix.
            prop_assert_eq!(cipher(1, b"file", 6).decrypt(&context, encrypted), Some(plain));
        }

        #[test]
        fn any_bytes_decrypt_to_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(cipher(1, b"file", 5).decrypt(b"", bytes.clone()), None);
            let own = [&cipher(1, b"file", 5).key_id().0[..], &bytes].concat();
            prop_assert_eq!(cipher(1, b"file", 5).decrypt(b"", own), None);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let cipher = cipher(1, b"file", 5);
        let encrypted = cipher.encrypt(b"here", &[b"one line\n"]).unwrap();
        for bit in 0..encrypted.len() * 8 {
            let mut changed = encrypted.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cipher.decrypt(b"here", changed), None, "bit {bit}");
        }
        for length in 0..encrypted.len() {
            assert_eq!(cipher.decrypt(b"here", encrypted[..length].to_vec()), None, "{length} bytes");
        }
    }

    #[test]
    fn a_part_is_bound_to_its_place_its_file_and_its_key() {
        let encrypted = cipher(1, b"file", 5).encrypt(b"here", &[b"text"]).unwrap();
        assert!(cipher(1, b"file", 5).decrypt(b"here", encrypted.clone()).is_some());
        assert_eq!(cipher(1, b"file", 5).decrypt(b"there", encrypted.clone()), None);
        assert_eq!(cipher(1, b"life", 5).decrypt(b"here", encrypted.clone()), None);
        assert_eq!(cipher(2, b"file", 5).decrypt(b"here", encrypted), None);
    }

    #[test]
    fn no_nonce_is_used_twice() {
        let cipher = cipher(1, b"file", 5);
        let mut nonces: Vec<Vec<u8>> =
            (0..100).map(|_| cipher.encrypt(b"", &[b"x"]).unwrap()[KeyId::LEN..HEAD_LEN].to_vec()).collect();
        nonces.sort();
        nonces.dedup();
        assert_eq!(nonces.len(), 100);
        cipher.counter.store(u64::from(u32::MAX), Ordering::Relaxed);
        cipher.encrypt(b"", &[b"x"]).unwrap();
        cipher.encrypt(b"", &[b"x"]).unwrap_err();
    }
}
