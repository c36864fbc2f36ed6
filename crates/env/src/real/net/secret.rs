//! What all nodes of a cluster know, and the keys that come of it.

use std::fmt;

use blake2::{Blake2s256, Digest};

/// Shorter ones could be guessed.
const BYTES_MIN: usize = 16;

/// What all nodes of a cluster know and nobody else. It is not stretched: random bytes, not a password.
#[derive(Clone)]
pub struct Secret {
    stream_key: [u8; 32],
    datagram_key: [u8; 32],
}

/// Why something cannot be a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It could be guessed.
    #[error("the secret has {bytes} bytes, at least {BYTES_MIN} are needed: try `head -c 32 /dev/urandom | base64`")]
    Short {
        /// How long it is.
        bytes: usize,
    },
}

impl Secret {
    /// The secret that a file holds. White space around it does not belong to it: editors end lines.
    ///
    /// # Errors
    /// [`SecretError::Short`] below 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        let bytes = bytes.trim_ascii();
        if bytes.len() < BYTES_MIN {
            return Err(SecretError::Short { bytes: bytes.len() });
        }
        // The inner hash has a fixed length, so no label and secret run together into another label and secret.
        let root = Blake2s256::digest(bytes);
        let key = |label: &str| Blake2s256::new().chain_update(root).chain_update(label).finalize().into();
        Ok(Self { stream_key: key("bucksaw cluster streams"), datagram_key: key("bucksaw cluster datagrams") })
    }

    pub(super) fn stream_key(&self) -> &[u8; 32] {
        &self.stream_key
    }

    pub(super) fn datagram_key(&self) -> &[u8; 32] {
        &self.datagram_key
    }
}

/// Never shows it.
impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_enough() {
        assert!(Secret::new(b"0123456789abcdef").is_ok());
        assert!(matches!(Secret::new(b"  0123456789abcde\n").unwrap_err(), SecretError::Short { bytes: 15 }));
    }

    #[test]
    fn each_use_has_its_own_key_and_debug_hides_it() {
        let one = Secret::new(b"0123456789abcdef").unwrap();
        let same = Secret::new(b"0123456789abcdef\n").unwrap();
        let other = Secret::new(b"0123456789abcdeF").unwrap();
        assert_eq!((one.stream_key, one.datagram_key), (same.stream_key, same.datagram_key));
        assert_ne!(one.stream_key, one.datagram_key);
        assert_ne!(one.stream_key, other.stream_key);
        assert_ne!(one.datagram_key, other.datagram_key);
        assert_eq!(format!("{one:?}"), "Secret");
    }
}
