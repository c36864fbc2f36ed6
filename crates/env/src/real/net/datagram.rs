//! The encoding of datagrams: a header of two bytes, then the content, encrypted if there is a secret.
//!
//! ```text
//! offset  size  field
//!      0     1  magic    0xB5
//!      1     1  version  1 plain, 0x81 encrypted
//!      2    24  nonce    random; only if encrypted
//!     26     n  content  XChaCha20-Poly1305 with the header as associated data, and a tag of 16 bytes; plain from offset 2
//! ```
//! A random nonce of 24 bytes never repeats, so nodes share nothing but the key. Replay is not prevented: gossip tolerates late
//! and duplicated datagrams, because a member's incarnation orders the messages about it.

use std::io;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use super::Secret;
use crate::DATAGRAM_BYTES_MAX;

const PLAIN_HEADER: [u8; 2] = [0xB5, 0x01];
const ENCRYPTED_HEADER: [u8; 2] = [0xB5, 0x81];
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Maximum bytes of an encrypted or plain datagram.
pub(super) const ENCRYPTED_BYTES_MAX: usize = ENCRYPTED_HEADER.len() + NONCE_BYTES + DATAGRAM_BYTES_MAX + TAG_BYTES;

pub(super) struct DatagramCipher(Option<XChaCha20Poly1305>);

impl std::fmt::Debug for DatagramCipher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Encrypted" } else { "Plain" })
    }
}

impl DatagramCipher {
    pub(super) fn new(secret: Option<&Secret>) -> Self {
        Self(secret.map(|secret| XChaCha20Poly1305::new((&secret.datagram_key).into())))
    }

    pub(super) fn encrypt(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        let Some(cipher) = &self.0 else { return Ok([&PLAIN_HEADER, content].concat()) };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)?;
        let encrypted = cipher
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: content, aad: &ENCRYPTED_HEADER })
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok([&ENCRYPTED_HEADER, nonce.as_slice(), &encrypted].concat())
    }

    /// The content; `None` if the datagram was modified or encrypted with another secret. A node with a secret accepts no
    /// plain datagram.
    pub(super) fn decrypt(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let content = match &self.0 {
            None => datagram.strip_prefix(&PLAIN_HEADER)?.to_vec(),
            Some(cipher) => {
                let (nonce, encrypted) = datagram.strip_prefix(&ENCRYPTED_HEADER)?.split_at_checked(NONCE_BYTES)?;
                cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: encrypted, aad: &ENCRYPTED_HEADER }).ok()?
            }
        };
        (content.len() <= DATAGRAM_BYTES_MAX).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(secret: &str) -> DatagramCipher {
        DatagramCipher::new(Some(&Secret::new(secret.as_bytes()).unwrap()))
    }

    #[test]
    fn only_the_same_secret_decrypts() {
        let (ours, same, other) = (cipher("0123456789abcdef"), cipher("0123456789abcdef"), cipher("another secret..."));
        let plain = DatagramCipher::new(None);
        for content in [vec![], b"hello".to_vec(), vec![7; DATAGRAM_BYTES_MAX]] {
            let encrypted = ours.encrypt(&content).unwrap();
            assert!(encrypted.len() <= ENCRYPTED_BYTES_MAX);
            assert_eq!(same.decrypt(&encrypted).unwrap(), content);
            assert!(other.decrypt(&encrypted).is_none());
            assert!(plain.decrypt(&encrypted).is_none());
            let unencrypted = plain.encrypt(&content).unwrap();
            assert_eq!(plain.decrypt(&unencrypted).unwrap(), content);
            assert!(ours.decrypt(&unencrypted).is_none());
        }
    }

    #[test]
    fn encryption_hides_content_and_never_repeats() {
        let ours = cipher("0123456789abcdef");
        let (one, two) = (ours.encrypt(b"the same content").unwrap(), ours.encrypt(b"the same content").unwrap());
        assert_ne!(one, two);
        assert!(!one.windows(4).any(|bytes| b"the same content".windows(4).any(|part| part == bytes)));
    }

    #[test]
    fn a_changed_bit_is_detected() {
        let ours = cipher("0123456789abcdef");
        let encrypted = ours.encrypt(b"hello").unwrap();
        for bit in 0..encrypted.len() * 8 {
            let mut damaged = encrypted.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ours.decrypt(&damaged).is_none(), "bit {bit}");
        }
        for length in 0..encrypted.len() {
            assert!(ours.decrypt(&encrypted[..length]).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn datagrams_that_are_too_long_or_of_another_version_are_rejected() {
        let plain = DatagramCipher::new(None);
        assert!(plain.decrypt(&[&PLAIN_HEADER[..], &vec![0; DATAGRAM_BYTES_MAX + 1]].concat()).is_none());
        assert!(plain.decrypt(&[0xB5, 0x02, 1]).is_none());
        assert!(plain.decrypt(b"").is_none());
    }
}
