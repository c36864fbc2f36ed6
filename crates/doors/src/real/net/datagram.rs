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

const PLAIN: [u8; 2] = [0xB5, 0x01];
const SEALED: [u8; 2] = [0xB5, 0x81];
const NONCE: usize = 24;
const TAG: usize = 16;

/// The longest that may come, sealed or not.
pub(super) const SEALED_BYTES_MAX: usize = SEALED.len() + NONCE + DATAGRAM_BYTES_MAX + TAG;

pub(super) struct Sealer(Option<XChaCha20Poly1305>);

impl std::fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Sealed" } else { "Plain" })
    }
}

impl Sealer {
    pub(super) fn new(secret: Option<&Secret>) -> Self {
        Self(secret.map(|secret| XChaCha20Poly1305::new(secret.datagrams().into())))
    }

    pub(super) fn seal(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        let Some(cipher) = &self.0 else { return Ok([&PLAIN, content].concat()) };
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce)?;
        let sealed = cipher
            .encrypt(XNonce::from_slice(&nonce), Payload { msg: content, aad: &SEALED })
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok([&SEALED, nonce.as_slice(), &sealed].concat())
    }

    /// What was sealed; `None` when that is not by the same secret and whole. Who has a secret opens nothing plain.
    pub(super) fn open(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let content = match &self.0 {
            None => datagram.strip_prefix(&PLAIN)?.to_vec(),
            Some(cipher) => {
                let (nonce, sealed) = datagram.strip_prefix(&SEALED)?.split_at_checked(NONCE)?;
                cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: &SEALED }).ok()?
            }
        };
        (content.len() <= DATAGRAM_BYTES_MAX).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(secret: &str) -> Sealer {
        Sealer::new(Some(&Secret::new(secret.as_bytes()).unwrap()))
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_secret_only() {
        let (ours, same, other) = (sealer("0123456789abcdef"), sealer("0123456789abcdef"), sealer("another secret..."));
        let plain = Sealer::new(None);
        for content in [vec![], b"hello".to_vec(), vec![7; DATAGRAM_BYTES_MAX]] {
            let sealed = ours.seal(&content).unwrap();
            assert!(sealed.len() <= SEALED_BYTES_MAX);
            assert_eq!(same.open(&sealed).unwrap(), content);
            assert!(other.open(&sealed).is_none());
            assert!(plain.open(&sealed).is_none());
            let open = plain.seal(&content).unwrap();
            assert_eq!(plain.open(&open).unwrap(), content);
            assert!(ours.open(&open).is_none());
        }
    }

    #[test]
    fn sealing_hides_and_never_repeats() {
        let ours = sealer("0123456789abcdef");
        let (one, two) = (ours.seal(b"the same content").unwrap(), ours.seal(b"the same content").unwrap());
        assert_ne!(one, two);
        assert!(!one.windows(4).any(|bytes| b"the same content".windows(4).any(|part| part == bytes)));
    }

    #[test]
    fn each_bit_counts() {
        let ours = sealer("0123456789abcdef");
        let sealed = ours.seal(b"hello").unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ours.open(&damaged).is_none(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(ours.open(&sealed[..length]).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn what_is_too_long_or_of_another_version_is_not_opened() {
        let plain = Sealer::new(None);
        assert!(plain.open(&[&PLAIN[..], &vec![0; DATAGRAM_BYTES_MAX + 1]].concat()).is_none());
        assert!(plain.open(&[0xB5, 0x02, 1]).is_none());
        assert!(plain.open(b"").is_none());
    }
}
