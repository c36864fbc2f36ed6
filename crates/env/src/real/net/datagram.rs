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
use super::secret::ActiveSecrets;
use crate::DATAGRAM_BYTES_MAX;

const PLAIN_HEADER: [u8; 2] = [0xB5, 0x01];
const ENCRYPTED_HEADER: [u8; 2] = [0xB5, 0x81];
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Maximum bytes of an encrypted or plain datagram.
pub(super) const ENCRYPTED_BYTES_MAX: usize = ENCRYPTED_HEADER.len() + NONCE_BYTES + DATAGRAM_BYTES_MAX + TAG_BYTES;

pub(super) struct DatagramCipher(ActiveSecrets);

impl std::fmt::Debug for DatagramCipher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_any() { "Encrypted" } else { "Plain" })
    }
}

impl DatagramCipher {
    pub(super) fn new(secrets: ActiveSecrets) -> Self {
        Self(secrets)
    }

    pub(super) fn encrypt(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        let Some(secret) = self.0.own() else { return Ok([&PLAIN_HEADER, content].concat()) };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)?;
        let encrypted = cipher(&secret)
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: content, aad: &ENCRYPTED_HEADER })
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok([&ENCRYPTED_HEADER, nonce.as_slice(), &encrypted].concat())
    }

    /// The content; `None` if the datagram was modified or encrypted with a secret that is not accepted. A node with a secret
    /// accepts no plain datagram.
    pub(super) fn decrypt(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let secrets = self.0.all();
        let content = if secrets.is_empty() {
            datagram.strip_prefix(&PLAIN_HEADER)?.to_vec()
        } else {
            let (nonce, encrypted) = datagram.strip_prefix(&ENCRYPTED_HEADER)?.split_at_checked(NONCE_BYTES)?;
            let decrypt = |secret: &Secret| {
                let payload = Payload { msg: encrypted, aad: &ENCRYPTED_HEADER };
                cipher(secret).decrypt(XNonce::from_slice(nonce), payload).ok()
            };
            secrets.iter().find_map(decrypt)?
        };
        (content.len() <= DATAGRAM_BYTES_MAX).then_some(content)
    }
}

fn cipher(secret: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&secret.datagram_key).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the secrets of a file.
    fn cipher(file: &str) -> DatagramCipher {
        DatagramCipher::new(ActiveSecrets::new(Secret::parse_file(file.as_bytes()).unwrap()))
    }

    fn plain() -> DatagramCipher {
        DatagramCipher::new(ActiveSecrets::new(Vec::new()))
    }

    #[test]
    fn all_secrets_are_accepted_and_the_first_is_used() {
        let (old, both, new) = ("0123456789abcdef", "fedcba9876543210\n0123456789abcdef", "fedcba9876543210");
        let check = |from: &str, to: &str, want: bool| {
            let datagram = cipher(from).encrypt(b"hello").unwrap();
            assert_eq!(cipher(to).decrypt(&datagram).is_some(), want, "{from} {to}");
        };
        check(old, both, true);
        check(new, both, true);
        check(both, new, true);
        check(both, old, false);
    }

    #[test]
    fn only_the_same_secret_decrypts() {
        let (ours, same, other) = (cipher("0123456789abcdef"), cipher("0123456789abcdef"), cipher("another secret..."));
        let plain = plain();
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
        let plain = plain();
        assert!(plain.decrypt(&[&PLAIN_HEADER[..], &vec![0; DATAGRAM_BYTES_MAX + 1]].concat()).is_none());
        assert!(plain.decrypt(&[0xB5, 0x02, 1]).is_none());
        assert!(plain.decrypt(b"").is_none());
    }
}
