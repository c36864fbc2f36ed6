//! The keys in a text: one on each line, the first of which encrypts new files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bucksaw_env::KeyId;

use crate::EncryptionKey;

/// The longest text with keys that is read, in bytes.
pub const KEY_TEXT_BYTES_MAX: usize = 64 << 10;

/// The largest number of keys.
pub const KEYS_MAX: usize = 100;

/// Why a text has no usable keys. Never shows a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyListError {
    /// A line is no key.
    #[error(
        "line {line} is not a key: 32 bytes as base64 or as 64 hexadecimal digits, such as from: openssl rand -base64 32"
    )]
    Invalid {
        /// The number of the line, from 1.
        line: usize,
    },
    /// There is no key.
    #[error("there is no key: make one with: openssl rand -base64 32")]
    Empty,
    /// The text is too long or has too many keys.
    #[error("there are more than {KEYS_MAX} keys, or more than {KEY_TEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// At least one key.
#[derive(Clone, Debug)]
pub struct KeyList {
    /// The first one encrypts new files; all decrypt.
    pub(crate) keys: Vec<EncryptionKey>,
}

impl KeyList {
    /// Reads the keys of a text. Empty lines, and lines that begin with `#`, are no keys.
    ///
    /// # Errors
    /// [`KeyListError`].
    pub fn parse(text: &[u8]) -> Result<Self, KeyListError> {
        if text.len() > KEY_TEXT_BYTES_MAX {
            return Err(KeyListError::TooLong);
        }
        let mut keys: Vec<EncryptionKey> = Vec::new();
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let key = EncryptionKey::new(&decode(line).ok_or(KeyListError::Invalid { line: number })?);
            if keys.len() >= KEYS_MAX {
                return Err(KeyListError::TooLong);
            }
            if keys.iter().all(|known| known.id() != key.id()) {
                keys.push(key);
            }
        }
        if keys.is_empty() { Err(KeyListError::Empty) } else { Ok(Self { keys }) }
    }

    /// The ids of the keys, the one that encrypts first.
    pub fn ids(&self) -> Vec<KeyId> {
        self.keys.iter().map(EncryptionKey::id).collect()
    }
}

fn decode(text: &[u8]) -> Option<[u8; EncryptionKey::LEN]> {
    if text.len() == 2 * EncryptionKey::LEN {
        let digits = std::str::from_utf8(text).ok()?;
        let mut key = [0; EncryptionKey::LEN];
        for (place, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair =
                std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            *place = u8::from_str_radix(pair, 16).ok()?;
        }
        return Some(key);
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    fn ids(text: &str) -> Result<Vec<String>, KeyListError> {
        KeyList::parse(text.as_bytes()).map(|list| list.keys.iter().map(|key| key.id().to_string()).collect())
    }

    #[test]
    fn keys_are_base64_or_hexadecimal_one_on_each_line() {
        let one = ids(BASE64).unwrap();
        // Files state this id, so it never changes.
        assert_eq!(one, ["b585208aaaf4bee7"]);
        assert_eq!(ids(HEX).unwrap(), one);
        let other = "f".repeat(64);
        let both = ids(&format!("# new\n{other}\r\n\n  {BASE64}  \n# the same again\n{HEX}")).unwrap();
        assert_eq!((both.len(), &both[1]), (2, &one[0]));
    }

    #[test]
    fn other_text_is_refused_and_not_repeated() {
        for (text, error) in [
            ("", KeyListError::Empty),
            ("# none\n\n", KeyListError::Empty),
            (&format!("{BASE64}\nsecret\n"), KeyListError::Invalid { line: 2 }),
            (&HEX[1..], KeyListError::Invalid { line: 1 }),
            (&format!("+{}", &HEX[1..]), KeyListError::Invalid { line: 1 }),
            ("AAECAwQFBgcICQoLDA0ODw==", KeyListError::Invalid { line: 1 }),
            (&"#".repeat(KEY_TEXT_BYTES_MAX + 1), KeyListError::TooLong),
        ] {
            assert_eq!(ids(text).unwrap_err(), error, "{text}");
            assert!(!error.to_string().contains("secret"));
        }
        let many: String = (0..=KEYS_MAX).map(|number| format!("{number:064x}\n")).collect();
        assert_eq!(ids(&many).unwrap_err(), KeyListError::TooLong);
        assert!(!format!("{:?}", KeyList::parse(BASE64.as_bytes()).unwrap()).contains("0, 1, 2"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_keys_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = KeyList::parse(&text);
        }
    }
}
