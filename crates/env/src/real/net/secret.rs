//! The cluster secret, and the keys derived from it.

use std::fmt;
use std::sync::{Arc, Mutex};

use blake2::{Blake2s256, Digest};

use crate::lock;

/// Shorter secrets could be guessed.
const BYTES_MIN: usize = 16;

/// Secrets that a node accepts at the same time: a change needs two.
const SECRETS_MAX: usize = 2;

/// The secret shared by all nodes of a cluster. It must be random bytes, not a password: it is not stretched.
#[derive(Clone)]
pub struct Secret {
    pub(super) stream_key: [u8; 32],
    pub(super) datagram_key: [u8; 32],
}

/// Why the secrets of a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSecret {
    /// It could be guessed.
    #[error("the secret has {bytes} bytes, at least {BYTES_MIN} are needed: try `head -c 32 /dev/urandom | base64`")]
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// More secrets than a change needs.
    #[error(
        "the file has {count} secrets, one a line, and at most {SECRETS_MAX} are accepted: the new one and the old one"
    )]
    TooMany {
        /// Their number.
        count: usize,
    },
}

impl Secret {
    /// A secret. Surrounding white space is ignored: editors end lines.
    ///
    /// # Errors
    /// [`InvalidSecret::TooShort`] below 16 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidSecret> {
        let bytes = bytes.trim_ascii();
        if bytes.len() < BYTES_MIN {
            return Err(InvalidSecret::TooShort { bytes: bytes.len() });
        }
        // The inner hash has a fixed length, so secret and label cannot run into each other.
        let root = Blake2s256::digest(bytes);
        let key = |label: &str| Blake2s256::new().chain_update(root).chain_update(label).finalize().into();
        Ok(Self { stream_key: key("bucksaw cluster streams"), datagram_key: key("bucksaw cluster datagrams") })
    }

    /// The secrets of a file: one a line in a text, or the whole file if it has other bytes than those of ASCII text. A node uses
    /// the first and accepts all.
    ///
    /// # Errors
    /// [`InvalidSecret`].
    pub fn parse_file(bytes: &[u8]) -> Result<Vec<Self>, InvalidSecret> {
        let is_text = bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        let lines = bytes.split(|byte| is_text && *byte == b'\n').map(<[u8]>::trim_ascii);
        let secrets: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        match secrets.len() {
            0 => Err(InvalidSecret::TooShort { bytes: 0 }),
            1..=SECRETS_MAX => secrets.into_iter().map(Self::new).collect(),
            count => Err(InvalidSecret::TooMany { count }),
        }
    }
}

/// The secrets in use: the first is that of this node, and all are accepted. None without encryption. Clones change together.
#[derive(Clone, Debug)]
pub(super) struct ActiveSecrets(Arc<Mutex<Arc<[Secret]>>>);

impl ActiveSecrets {
    pub(super) fn new(secrets: Vec<Secret>) -> Self {
        Self(Arc::new(Mutex::new(secrets.into())))
    }

    /// The secret of this node, if it has any.
    pub(super) fn own(&self) -> Option<Secret> {
        lock(&self.0).first().cloned()
    }

    /// The accepted secrets.
    pub(super) fn all(&self) -> Arc<[Secret]> {
        Arc::clone(&lock(&self.0))
    }

    /// Whether there is a secret.
    pub(super) fn is_any(&self) -> bool {
        !lock(&self.0).is_empty()
    }

    /// Replaces the secrets, unless that would begin or end encryption.
    pub(super) fn replace(&self, secrets: Vec<Secret>) {
        let mut current = lock(&self.0);
        if current.is_empty() == secrets.is_empty() {
            *current = secrets.into();
        }
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
        assert_eq!(Secret::new(b"  0123456789abcde\n").unwrap_err(), InvalidSecret::TooShort { bytes: 15 });
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

    #[test]
    fn a_text_has_a_secret_a_line_and_other_bytes_are_one_secret() {
        let check = |bytes: &[u8], want: Result<usize, InvalidSecret>| {
            let got = Secret::parse_file(bytes).map(|secrets| secrets.len());
            assert_eq!(got, want, "{}", bytes.escape_ascii());
        };
        check(b"0123456789abcdef", Ok(1));
        check(b"\n a secret with blanks \r\n\n", Ok(1));
        check(b"0123456789abcdef\nfedcba9876543210\n", Ok(2));
        check(b"0123456789abcdef\xff\n\xfe", Ok(1));
        check(b" \n", Err(InvalidSecret::TooShort { bytes: 0 }));
        check(b"0123456789abcdef\nshort", Err(InvalidSecret::TooShort { bytes: 5 }));
        check(&b"0123456789abcdef\n".repeat(3), Err(InvalidSecret::TooMany { count: 3 }));
        let two = Secret::parse_file(b"0123456789abcdef\nfedcba9876543210").unwrap();
        assert_eq!(two[0].stream_key, Secret::new(b"0123456789abcdef").unwrap().stream_key);
    }

    #[test]
    fn encryption_neither_begins_nor_ends_by_a_change() {
        let secret = || vec![Secret::new(b"0123456789abcdef").unwrap()];
        let plain = ActiveSecrets::new(Vec::new());
        plain.replace(secret());
        assert!(!plain.is_any());
        let encrypted = ActiveSecrets::new(secret());
        encrypted.replace(Vec::new());
        assert!(encrypted.is_any());
    }
}
