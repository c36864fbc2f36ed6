//! Reads arbitrary bytes as what a provider or a client sends, for the fuzzer.

use bucksaw_auth::OidcSettings;
use bucksaw_record::Millis;

use crate::id_token::{UnverifiedToken, user_of_claims};
use crate::key_set::KeySet;
use crate::login::PendingLogin;
use crate::metadata::ProviderMetadata;

/// A time at which a token with `"exp":2` is valid.
const NOW: Millis = Millis(1_000);

pub(crate) fn input(data: &[u8]) {
    let settings = OidcSettings {
        issuer: "i".to_owned(),
        client_id: "c".to_owned(),
        client_secret_file: None,
        ca_file: None,
        redirect_url: "https://r".to_owned(),
        name_claim: "email".to_owned(),
        groups_claim: "groups".to_owned(),
        request_scopes: Vec::new(),
    };
    let _ = ProviderMetadata::parse(data, &settings.issuer);
    // A key set and a token that names one of its keys, with a zero byte between them.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (document, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let keys = KeySet::parse(document).unwrap_or_default();
    if let Ok(token) = str::from_utf8(token).map(UnverifiedToken::parse)
        && let Ok(token) = token
    {
        let _ = token.verify(&keys, &settings, Some("n"), NOW);
    }
    // As if they were signed.
    if let Ok(claims) = serde_json::from_slice(data)
        && let Ok(user) = user_of_claims(&claims, &settings, None, NOW)
    {
        assert!(!user.name().is_empty() && !user.name().contains(char::is_control));
    }
    if let Ok(text) = str::from_utf8(data) {
        let _ = UnverifiedToken::parse(text);
        let _ = PendingLogin::parse(text);
    }
}
