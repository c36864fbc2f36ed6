//! Tokens, and the digests by which a node knows them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::SecretText;

/// The start of every token. A scanner for secrets in files finds tokens by it.
const PREFIX: &str = "bks_";

/// A token of random bytes, which must come from a source that is fit for secrets: `bks_` and 43 characters of base64url.
pub fn new_token(random: [u8; 32]) -> SecretText {
    SecretText::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)))
}

/// The SHA-256 of a token. Compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Reads 64 hexadecimal digits; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| pair.get(at).and_then(|digit| char::from(*digit).to_digit(16));
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self(bytes))
    }

    /// The first bytes, by which a table is searched. They are those of a hash, so a client cannot choose them.
    pub(crate) fn bucket(&self) -> u64 {
        let (first, _) = self.0.split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first)
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenDigest {}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_prefix_and_all_random_bytes() {
        let token = new_token([0xff; 32]);
        assert_eq!(token.expose(), format!("bks_{}8", "_".repeat(42)));
        assert_ne!(new_token([1; 32]).expose(), new_token([2; 32]).expose());
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        // The example of FIPS 180-2.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenDigest::of("abc").to_string(), abc);
        assert_eq!(TokenDigest::parse(abc), Some(TokenDigest::of("abc")));
        assert_eq!(TokenDigest::parse(&abc.to_uppercase()), Some(TokenDigest::of("abc")));
        assert_ne!(TokenDigest::of("abc"), TokenDigest::of("abd"));
        for bad in ["", "00", &abc[1..], &format!("{abc}0"), &format!("x{}", &abc[1..]), &"é".repeat(32)] {
            assert_eq!(TokenDigest::parse(bad), None, "{bad}");
        }
    }
}
