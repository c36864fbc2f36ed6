//! Datagrams as they lie on the network: two bytes in front, and sealed when there is a secret.
//!
//! ```text
//! offset  size  field
//!      0     1  magic    0xB5
//!      1     1  version  1 in plain, 0x81 sealed
//!      2    24  nonce    random, when sealed
//!     26     n  content  XChaCha20-Poly1305, with the two bytes in front as associated data; in plain from offset 2 as it is
//!             + 16 bytes of tag
//! ```
//! A random nonce of 24 bytes never comes twice, so nodes need to agree on nothing but the key. What was sealed once can be
//! sent again by who listens in. That is not prevented here: gossip must bear datagrams that come twice and late anyway,
//! and what it says counts by the incarnation of whom it is about, so old news change nothing.

use std::io;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use super::Secret;
use crate::DATAGRAM_BYTES_MAX;

const PLAIN_HEADER: [u8; 2] = [0xB5, 0x01];
const ENCRYPTED_HEADER: [u8; 2] = [0xB5, 0x81];
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// The longest that may come, sealed or not.
pub(super) const ENCRYPTED_BYTES_MAX: usize = ENCRYPTED_HEADER.len() + NONCE_BYTES + DATAGRAM_BYTES_MAX + TAG_BYTES;

pub(super) struct DatagramCipher(Option<XChaCha20Poly1305>);

impl std::fmt::Debug for DatagramCipher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Sealed" } else { "Plain" })
    }
}

impl DatagramCipher {
    pub(super) fn new(secret: Option<&Secret>) -> Self {
        Self(secret.map(|secret| XChaCha20Poly1305::new(secret.datagram_key().into())))
    }

    pub(super) fn encrypt(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        let Some(cipher) = &self.0 else { return Ok([&PLAIN_HEADER, content].concat()) };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)?;
        let sealed = cipher
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: content, aad: &ENCRYPTED_HEADER })
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok([&ENCRYPTED_HEADER, nonce.as_slice(), &sealed].concat())
    }

    /// What was sealed; `None` when that is not by the same secret and whole. Who has a secret opens nothing plain.
    pub(super) fn decrypt(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let content = match &self.0 {
            None => datagram.strip_prefix(&PLAIN_HEADER)?.to_vec(),
            Some(cipher) => {
                let (nonce, sealed) = datagram.strip_prefix(&ENCRYPTED_HEADER)?.split_at_checked(NONCE_BYTES)?;
                cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: &ENCRYPTED_HEADER }).ok()?
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
            let sealed = ours.encrypt(&content).unwrap();
            assert!(sealed.len() <= ENCRYPTED_BYTES_MAX);
            assert_eq!(same.decrypt(&sealed).unwrap(), content);
            assert!(other.decrypt(&sealed).is_none());
            assert!(plain.decrypt(&sealed).is_none());
            let open = plain.encrypt(&content).unwrap();
            assert_eq!(plain.decrypt(&open).unwrap(), content);
            assert!(ours.decrypt(&open).is_none());
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
        let sealed = ours.encrypt(b"hello").unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ours.decrypt(&damaged).is_none(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(ours.decrypt(&sealed[..length]).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn datagrams_that_are_too_long_or_of_another_version_are_dropped() {
        let plain = DatagramCipher::new(None);
        assert!(plain.decrypt(&[&PLAIN_HEADER[..], &vec![0; DATAGRAM_BYTES_MAX + 1]].concat()).is_none());
        assert!(plain.decrypt(&[0xB5, 0x02, 1]).is_none());
        assert!(plain.decrypt(b"").is_none());
    }
}
