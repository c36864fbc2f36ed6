//! Credentials in headers of HTTP, in the forms that senders of other log systems use.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::SecretText;

/// The cookie of the page. Its value is the token itself, so that every node can check it.
pub const COOKIE_NAME: &str = "bucksaw_token";

/// Longest credential in bytes.
const CREDENTIAL_BYTES_MAX: usize = 16 << 10;

/// The header `Authorization` holds no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header Authorization holds no token: send `Bearer TOKEN`, or `Basic` with the token as password")]
pub struct InvalidAuthorization;

/// The token in a header `Authorization`: `Bearer TOKEN`, `Splunk TOKEN`, `Basic` with the token as password, or as user name
/// without a password, or `ApiKey` with the token behind an id and a colon, in base64, or as it is.
///
/// # Errors
/// [`InvalidAuthorization`] for any other value.
pub fn token_of_authorization(value: &[u8]) -> Result<SecretText, InvalidAuthorization> {
    let value = str::from_utf8(value).map_err(|_| InvalidAuthorization)?;
    let (scheme, value) = value.trim_ascii().split_once(' ').ok_or(InvalidAuthorization)?;
    let value = value.trim_ascii();
    if value.len() > CREDENTIAL_BYTES_MAX {
        return Err(InvalidAuthorization);
    }
    let token = match scheme.to_ascii_lowercase().as_str() {
        "bearer" | "splunk" => value.to_owned(),
        "basic" => {
            let pair = decode(value).ok_or(InvalidAuthorization)?;
            let (user, password) = pair.split_once(':').ok_or(InvalidAuthorization)?;
            if password.is_empty() { user } else { password }.to_owned()
        }
        "apikey" => match decode(value) {
            Some(pair) if pair.contains(':') => pair.split_once(':').map_or("", |(_, key)| key).to_owned(),
            _ => value.to_owned(),
        },
        _ => return Err(InvalidAuthorization),
    };
    if token.is_empty() { Err(InvalidAuthorization) } else { Ok(SecretText::new(token)) }
}

/// The token in a header `Cookie`, if it has one.
pub fn token_of_cookie(value: &[u8]) -> Option<SecretText> {
    let value = str::from_utf8(value).ok()?;
    let mut pairs = value.split(';').filter_map(|pair| pair.trim_ascii().split_once('='));
    let (_, token) = pairs.find(|(name, _)| *name == COOKIE_NAME)?;
    let is_token = !token.is_empty() && token.len() <= CREDENTIAL_BYTES_MAX;
    is_token.then(|| SecretText::new(token))
}

/// Text in base64, with or without padding.
fn decode(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_in_all_forms_of_authorization() {
        let check = |value: &str, want: Option<&str>| {
            let got = token_of_authorization(value.as_bytes()).ok();
            assert_eq!(got.as_ref().map(SecretText::expose), want, "{value}");
        };
        check("Bearer bks_x", Some("bks_x"));
        check("  bearer   bks_x ", Some("bks_x"));
        check("Splunk bks_x", Some("bks_x"));
        // `user:bks_x`, `bks_x:`, `user:a:b`.
        check("Basic dXNlcjpia3NfeA==", Some("bks_x"));
        check("Basic YmtzX3g6", Some("bks_x"));
        check("Basic dXNlcjphOmI=", Some("a:b"));
        check("Basic dXNlcjpia3NfeA", Some("bks_x"));
        // `id:bks_x`.
        check("ApiKey aWQ6YmtzX3g=", Some("bks_x"));
        check("ApiKey bks_x", Some("bks_x"));
        for bad in ["", "Bearer", "Bearer ", "bks_x", "Digest a=b", "Basic ?", "Basic bks_", "Basic Og=="] {
            check(bad, None);
        }
        check(&format!("Bearer {}", "x".repeat(CREDENTIAL_BYTES_MAX + 1)), None);
        assert!(token_of_authorization(b"Bearer \xff").is_err());
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let check = |value: &str, want: Option<&str>| {
            assert_eq!(token_of_cookie(value.as_bytes()).as_ref().map(SecretText::expose), want, "{value}");
        };
        check("bucksaw_token=bks_x", Some("bks_x"));
        check("a=b; bucksaw_token=bks_x; c=d", Some("bks_x"));
        check("a=bucksaw_token; bucksaw_token=", None);
        check("xbucksaw_token=bks_x", None);
        check("", None);
    }
}
