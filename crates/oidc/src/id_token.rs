//! Checks of an ID token.

use bucksaw_auth::{ExternalUser, OidcSettings};
use bucksaw_record::Millis;
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

use crate::key_set::KeySet;

/// How far the clocks of provider and node may differ, in milliseconds.
const CLOCK_SKEW_MS: u64 = 60_000;

/// Longest name of a user, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Most groups of a user that are considered.
const GROUPS_MAX: usize = 256;

/// What tokens may be signed with: never a key that the verifier shares, and never nothing.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Why an ID token is refused. No message shows a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// It is no JWT.
    #[error("the ID token is malformed")]
    Malformed,
    /// It is signed with something else than a public key.
    #[error("the ID token is signed by an algorithm that is not accepted")]
    Algorithm,
    /// The provider has no key of its id.
    #[error("the ID token is signed with a key that the provider does not publish")]
    UnknownKey,
    /// The signature is wrong.
    #[error("the signature of the ID token is wrong")]
    Signature,
    /// It comes from another provider.
    #[error("the ID token comes from another issuer")]
    Issuer,
    /// It is for another client.
    #[error("the ID token is for another client of the provider")]
    Audience,
    /// Its time is over.
    #[error("the ID token has expired")]
    Expired,
    /// Its time has not begun.
    #[error("the ID token is not valid yet: do the clocks differ?")]
    NotYet,
    /// It answers another log-in.
    #[error("the ID token belongs to another log-in")]
    Nonce,
    /// It names no user.
    #[error("the ID token names no user")]
    NoUser,
}

/// A token whose signature was not checked.
pub(crate) struct UnverifiedToken<'a> {
    text: &'a str,
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
}

impl<'a> UnverifiedToken<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, TokenFault> {
        crate::ring_verifier::install();
        let header = jsonwebtoken::decode_header(text).map_err(|_| TokenFault::Malformed)?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(TokenFault::Algorithm);
        }
        Ok(Self { text, algorithm: header.alg, key_id: header.kid })
    }

    /// Checks the token, and returns its user. `nonce` is that of the log-in that it answers.
    pub(crate) fn verify(
        &self,
        keys: &KeySet,
        settings: &OidcSettings,
        nonce: Option<&str>,
        now: Millis,
    ) -> Result<ExternalUser, TokenFault> {
        user_of_claims(&self.signed_claims(keys)?, settings, nonce, now)
    }

    fn signed_claims(&self, keys: &KeySet) -> Result<Map<String, Value>, TokenFault> {
        let mut validation = Validation::new(self.algorithm);
        // The other checks need the clock of the environment, and the settings.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let candidates = keys.candidates(self.key_id.as_deref(), self.algorithm);
        if candidates.is_empty() {
            return Err(TokenFault::UnknownKey);
        }
        let mut claims = candidates
            .iter()
            .filter_map(|key| jsonwebtoken::decode::<Map<String, Value>>(self.text, key, &validation).ok());
        claims.next().map(|token| token.claims).ok_or(TokenFault::Signature)
    }
}

/// The user that the claims of a signed token name.
pub(crate) fn user_of_claims(
    claims: &Map<String, Value>,
    settings: &OidcSettings,
    nonce: Option<&str>,
    now: Millis,
) -> Result<ExternalUser, TokenFault> {
    check_issuer_and_audience(claims, settings)?;
    let expires = check_times(claims, now)?;
    if let Some(nonce) = nonce {
        let stated = text(claims, "nonce").unwrap_or_default();
        if !bool::from(stated.as_bytes().ct_eq(nonce.as_bytes())) {
            return Err(TokenFault::Nonce);
        }
    }
    let name = text(claims, &settings.name_claim).or_else(|| text(claims, "sub")).ok_or(TokenFault::NoUser)?;
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(TokenFault::NoUser);
    }
    Ok(ExternalUser::new(name, groups(claims, &settings.groups_claim), Some(expires)))
}

fn check_issuer_and_audience(claims: &Map<String, Value>, settings: &OidcSettings) -> Result<(), TokenFault> {
    if text(claims, "iss") != Some(&settings.issuer) {
        return Err(TokenFault::Issuer);
    }
    let client = settings.client_id.as_str();
    let is_for_client = match claims.get("aud") {
        Some(Value::String(audience)) => audience == client,
        Some(Value::Array(audiences)) => {
            let names_client = audiences.iter().any(|audience| audience == client);
            // A token for several parties must have been issued to this one.
            names_client && (audiences.len() == 1 || text(claims, "azp") == Some(client))
        }
        _ => false,
    };
    let is_issued_to_client = claims.get("azp").is_none_or(|party| party == client);
    if is_for_client && is_issued_to_client { Ok(()) } else { Err(TokenFault::Audience) }
}

/// Checks the times of a token, and returns its end.
fn check_times(claims: &Map<String, Value>, now: Millis) -> Result<Millis, TokenFault> {
    let ms = |name: &str| {
        let seconds = claims.get(name).and_then(Value::as_f64).filter(|seconds| (0.0..1e12).contains(seconds));
        seconds.map(|seconds| (seconds * 1e3) as u64)
    };
    let expires = ms("exp").ok_or(TokenFault::Malformed)?;
    if now.0 >= expires {
        return Err(TokenFault::Expired);
    }
    for name in ["nbf", "iat"] {
        if claims.contains_key(name) && ms(name).ok_or(TokenFault::Malformed)? > now.0.saturating_add(CLOCK_SKEW_MS) {
            return Err(TokenFault::NotYet);
        }
    }
    Ok(Millis(expires))
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The groups: a list of texts, or one text.
fn groups(claims: &Map<String, Value>, name: &str) -> Vec<String> {
    match claims.get(name) {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => {
            groups.iter().filter_map(Value::as_str).take(GROUPS_MAX).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
