//! A log-in that a browser has begun.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bucksaw_auth::OidcSettings;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Random bytes of each part.
const PART_BYTES: usize = 32;

/// Characters of each part in base64.
const PART_CHARS: usize = 43;

/// Why a log-in cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginFault {
    /// The browser has begun no log-in, or another one.
    #[error("this browser has begun no such log-in, or too long ago: log in again")]
    NotBegun,
}

/// A log-in that has begun. The browser keeps it in a cookie, so that any node can complete it.
///
/// - `state` comes back in the URL, and shows that the answer is for this browser.
/// - `nonce` comes back in the ID token, and shows that the token is for this log-in.
/// - `verifier` proves at the token endpoint that the code was requested by the same browser (PKCE, RFC 7636).
#[derive(Clone)]
pub struct PendingLogin {
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
}

impl PendingLogin {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn draw() -> Result<Self, getrandom::Error> {
        let part = || {
            let mut bytes = [0; PART_BYTES];
            getrandom::fill(&mut bytes).map(|()| URL_SAFE_NO_PAD.encode(bytes))
        };
        Ok(Self { state: part()?, nonce: part()?, verifier: part()? })
    }

    /// The value of the cookie.
    #[must_use]
    pub fn cookie_value(&self) -> String {
        format!("{}.{}.{}", self.state, self.nonce, self.verifier)
    }

    /// Reads the value of the cookie.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split('.').map(str::to_owned);
        let login = Self { state: parts.next()?, nonce: parts.next()?, verifier: parts.next()? };
        let is_part = |part: &String| {
            part.len() == PART_CHARS
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        (parts.next().is_none() && [&login.state, &login.nonce, &login.verifier].into_iter().all(is_part))
            .then_some(login)
    }

    /// Checks that an answer of the provider belongs to this log-in.
    ///
    /// # Errors
    /// [`LoginFault::NotBegun`].
    pub fn check_state(&self, state: &str) -> Result<(), LoginFault> {
        let is_same = bool::from(self.state.as_bytes().ct_eq(state.as_bytes()));
        if is_same { Ok(()) } else { Err(LoginFault::NotBegun) }
    }

    /// The URL at which the user logs in.
    pub(crate) fn url(&self, endpoint: &str, settings: &OidcSettings) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier));
        let scope = settings.request_scopes.join(" ");
        let parameters = [
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &settings.redirect_url),
            ("scope", &scope),
            ("state", &self.state),
            ("nonce", &self.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        format!("{endpoint}{separator}{}", form(&parameters))
    }

    /// The body of the request that exchanges the code. A client without a secret names itself in it.
    pub(crate) fn exchange(&self, code: &str, settings: &OidcSettings) -> String {
        let mut parameters = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &settings.redirect_url),
            ("code_verifier", &self.verifier),
        ];
        if settings.client_secret_file.is_none() {
            parameters.push(("client_id", &settings.client_id));
        }
        form(&parameters)
    }
}

impl std::fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingLogin")
    }
}

/// Percent-encodes a text for a form.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn form(parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> OidcSettings {
        OidcSettings {
            issuer: "https://id.example".to_owned(),
            client_id: "logs & more".to_owned(),
            client_secret_file: None,
            ca_file: None,
            redirect_url: "https://logs.example/auth/callback".to_owned(),
            name_claim: "email".to_owned(),
            groups_claim: "groups".to_owned(),
            request_scopes: vec!["openid".to_owned(), "email".to_owned()],
        }
    }

    #[test]
    fn a_login_passes_through_its_cookie() {
        let (login, other) = (PendingLogin::draw().unwrap(), PendingLogin::draw().unwrap());
        let read = PendingLogin::parse(&login.cookie_value()).unwrap();
        assert_eq!(read.cookie_value(), login.cookie_value());
        assert_eq!(read.check_state(&login.state), Ok(()));
        for wrong in [other.state.as_str(), "", &login.nonce] {
            assert_eq!(read.check_state(wrong), Err(LoginFault::NotBegun));
        }
        let value = login.cookie_value();
        for bad in
            ["", "..", &value[1..], &format!("{value}."), &value.replace(&value[..1], "ä"), &format!("{value}.x")]
        {
            assert!(PendingLogin::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(format!("{login:?}"), "PendingLogin");
    }

    #[test]
    fn the_url_has_the_challenge_and_not_the_verifier() {
        // The example of RFC 7636, appendix B.
        let login = PendingLogin {
            state: "s".to_owned(),
            nonce: "n".to_owned(),
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
        };
        let url = login.url("https://id.example/auth?x=1", &settings());
        assert!(
            url.starts_with("https://id.example/auth?x=1&response_type=code&client_id=logs%20%26%20more&"),
            "{url}"
        );
        assert!(
            url.contains("&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw%2DcM&code_challenge_method=S256"),
            "{url}"
        );
        assert!(url.contains("&scope=openid%20email&state=s&nonce=n&") && !url.contains("dBjft"), "{url}");
        let body = login.exchange("a b", &settings());
        assert!(body.contains("code=a%20b&") && body.ends_with("client_id=logs%20%26%20more"), "{body}");
        let with_secret = OidcSettings { client_secret_file: Some("s".into()), ..settings() };
        assert!(!login.exchange("a", &with_secret).contains("client_id"));
    }
}
