//! The keys of a provider.

use jsonwebtoken::jwk::{Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Most keys that are considered.
const KEYS_MAX: usize = 100;

/// The keys with which a provider signs.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct KeySetText {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWK set (RFC 7517, section 5). Keys of unknown kinds and those for encryption are left out.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, serde_json::Error> {
        let document: KeySetText = serde_json::from_slice(document)?;
        let keys = document.keys.into_iter().take(KEYS_MAX).filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(Self { keys: keys.filter(signs).collect() })
    }

    /// The keys that may have signed a token: that of its key id, or all if it names none.
    pub(crate) fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<DecodingKey> {
        let is_named = |key: &&Jwk| id.is_none_or(|id| key.common.key_id.as_deref() == Some(id));
        let is_fit = |key: &&Jwk| {
            let stated = key.common.key_algorithm;
            stated.is_none_or(|stated| stated.to_string().parse() == Ok(algorithm))
        };
        self.keys.iter().filter(is_named).filter(is_fit).filter_map(|key| DecodingKey::from_jwk(key).ok()).collect()
    }
}

fn signs(key: &Jwk) -> bool {
    let common = &key.common;
    common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}
