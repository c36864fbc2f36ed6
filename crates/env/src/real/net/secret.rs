//! The cluster secret, and the keys derived from it.

use std::fmt;

use blake2::{Blake2s256, Digest};

/// Shorter secrets could be guessed.
const BYTES_MIN: usize = 16;

/// The secret shared by all nodes of a cluster. It must be random bytes, not a password: it is not stretched.
#[derive(Clone)]
pub struct Secret {
    pub(super) stream_key: [u8; 32],
    pub(super) datagram_key: [u8; 32],
}

/// A secret that could be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret has {bytes} bytes, at least {BYTES_MIN} are needed: try `head -c 32 /dev/urandom | base64`")]
pub struct SecretTooShort {
    /// Its length.
    pub bytes: usize,
}

impl Secret {
    /// The secret in a file. Surrounding white space is ignored: editors end lines.
    ///
    /// # Errors
    /// [`SecretTooShort`] below 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        let bytes = bytes.trim_ascii();
        if bytes.len() < BYTES_MIN {
            return Err(SecretTooShort { bytes: bytes.len() });
        }
        // The inner hash has a fixed length, so secret and label cannot run into each other.
        let root = Blake2s256::digest(bytes);
        let key = |label: &str| Blake2s256::new().chain_update(root).chain_update(label).finalize().into();
        Ok(Self { stream_key: key("bucksaw cluster streams"), datagram_key: key("bucksaw cluster datagrams") })
    }
}

/// Hides the keys.
impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_secret_is_refused() {
        assert!(Secret::new(b"0123456789abcdef").is_ok());
        assert_eq!(Secret::new(b"  0123456789abcde\n").unwrap_err(), SecretTooShort { bytes: 15 });
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
