//! The provider of the auth file: its document, its keys, and log-ins at it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bucksaw_auth::{ExternalUser, OidcSettings, SecretText};
use bucksaw_env::{Env, read_file};
use bucksaw_record::Millis;
use bucksaw_tls::{ClientFiles, ClientTls};
use bytes::Bytes;
use hyper::header::HeaderValue;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::fetch::{DocumentError, FormRequest, fetch};
use crate::id_token::{TokenFault, UnverifiedToken};
use crate::key_set::KeySet;
use crate::login::{PendingLogin, encode};
use crate::metadata::ProviderMetadata;

/// The age at which document and keys are fetched again.
const REFRESH_AFTER: Duration = Duration::from_secs(3_600);

/// The shortest time between two fetches, so that tokens with unknown keys cause no flood of requests.
const FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Largest file with a client's secret, in bytes.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// Why a user is not recognised, or cannot log in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// The token is refused.
    #[error(transparent)]
    Token(#[from] TokenFault),
    /// The provider cannot be asked. The caller may try again.
    #[error("the identity provider cannot be asked: {0}")]
    Provider(String),
    /// The provider refused the code.
    #[error("the identity provider refused the log-in: log in again")]
    Refused,
    /// A file of the settings cannot be read.
    #[error("{0}")]
    Settings(String),
}

impl From<DocumentError> for OidcError {
    fn from(error: DocumentError) -> Self {
        Self::Provider(error.to_string())
    }
}

/// Recognises users by ID tokens, and logs them in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct IdentityProvider {
    env: Env,
    /// Locked while the provider is asked: others wait for the same answer.
    known: Arc<Mutex<Option<KnownProvider>>>,
}

/// What was fetched from a provider.
#[derive(Clone, Debug)]
struct KnownProvider {
    settings: Arc<OidcSettings>,
    tls: ClientTls,
    /// The last answer; the reason for the last failure, until there is one.
    answer: Result<ProviderAnswer, String>,
    /// The uptime of the last attempt.
    asked_at: Option<Duration>,
}

#[derive(Clone, Debug)]
struct ProviderAnswer {
    metadata: Arc<ProviderMetadata>,
    keys: Arc<KeySet>,
    fetched_at: Duration,
}

/// A log-in that begins.
#[derive(Debug)]
pub struct LoginStart {
    /// Where the browser continues.
    pub url: String,
    /// What the browser keeps.
    pub pending: PendingLogin,
}

/// A user who has logged in.
#[derive(Debug)]
pub struct LoggedIn {
    /// The credential.
    pub id_token: SecretText,
    /// The user.
    pub user: ExternalUser,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl IdentityProvider {
    /// Asks nothing until it is used.
    #[must_use]
    pub fn new(env: Env) -> Self {
        Self { env, known: Arc::default() }
    }

    /// The user of an ID token.
    ///
    /// # Errors
    /// [`OidcError::Token`]; [`OidcError::Provider`] if no keys were ever fetched.
    pub async fn verify(&self, settings: &Arc<OidcSettings>, token: &SecretText) -> Result<ExternalUser, OidcError> {
        self.check(settings, token, None).await
    }

    async fn check(
        &self,
        settings: &Arc<OidcSettings>,
        token: &SecretText,
        nonce: Option<&str>,
    ) -> Result<ExternalUser, OidcError> {
        let token = UnverifiedToken::parse(token.expose())?;
        let now = Millis(self.env.clock.unix_ms());
        let (_, answer) = self.ask(settings, false).await?;
        match token.verify(&answer.keys, settings, nonce, now) {
            // The provider may sign with a new key.
            Err(TokenFault::UnknownKey) => {
                let (_, answer) = self.ask(settings, true).await?;
                Ok(token.verify(&answer.keys, settings, nonce, now)?)
            }
            user => Ok(user?),
        }
    }

    /// Begins a log-in.
    ///
    /// # Errors
    /// [`OidcError::Provider`], [`OidcError::Settings`].
    pub async fn begin(&self, settings: &Arc<OidcSettings>) -> Result<LoginStart, OidcError> {
        let (_, answer) = self.ask(settings, false).await?;
        let pending = PendingLogin::draw().map_err(|error| OidcError::Settings(error.to_string()))?;
        let url = pending.url(&answer.metadata.authorization_endpoint, settings);
        Ok(LoginStart { url, pending })
    }

    /// Completes a log-in with the code that the provider gave to the browser. The caller has checked the state.
    ///
    /// # Errors
    /// [`OidcError`].
    pub async fn finish(
        &self,
        settings: &Arc<OidcSettings>,
        pending: &PendingLogin,
        code: &str,
    ) -> Result<LoggedIn, OidcError> {
        let (tls, answer) = self.ask(settings, false).await?;
        let request = FormRequest {
            url: &answer.metadata.token_endpoint,
            form: Some(pending.exchange(code, settings)),
            authorization: self.client_authorization(settings)?,
        };
        let body = match fetch(request, &tls).await {
            Ok(body) => body,
            Err(DocumentError::Status(_, status)) if status.is_client_error() => return Err(OidcError::Refused),
            Err(error) => return Err(error.into()),
        };
        let TokenAnswer { id_token } = serde_json::from_slice(&body)
            .map_err(|_| OidcError::Provider("it answered the code without an ID token".to_owned()))?;
        let id_token = SecretText::new(id_token);
        let user = self.check(settings, &id_token, Some(&pending.nonce)).await?;
        Ok(LoggedIn { id_token, user })
    }

    /// The client's id and secret as RFC 6749 (section 2.3.1) writes them; none for a public client.
    fn client_authorization(&self, settings: &OidcSettings) -> Result<Option<HeaderValue>, OidcError> {
        let Some(path) = &settings.client_secret_file else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| OidcError::Settings(format!("{}: {error}", path.display()));
        let secret = read_file(&*self.env.fs, path, SECRET_BYTES_MAX).map_err(|error| failed(&error))?;
        let secret = secret.ok_or_else(|| failed(&"the file does not exist"))?;
        let secret = String::from_utf8(secret).map_err(|_| failed(&"it is not UTF-8"))?;
        let pair = format!("{}:{}", encode(&settings.client_id), encode(secret.trim()));
        let mut value =
            HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).map_err(|error| failed(&error))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// The document and the keys of the provider, fetched if they are not known, old, or `must_refresh`. Old ones stay in use
    /// while the provider cannot be reached.
    async fn ask(
        &self,
        settings: &Arc<OidcSettings>,
        must_refresh: bool,
    ) -> Result<(ClientTls, ProviderAnswer), OidcError> {
        let mut known = self.known.lock().await;
        let uptime = self.env.clock.uptime();
        if known.as_ref().is_none_or(|known| known.settings != *settings) {
            let (settings, tls) = (Arc::clone(settings), self.tls(settings)?);
            *known = Some(KnownProvider { settings, tls, answer: Err(String::new()), asked_at: None });
        }
        let provider = known.as_mut().ok_or_else(|| OidcError::Provider("it is not known".to_owned()))?;
        let is_old = match &provider.answer {
            Ok(answer) => must_refresh || uptime.saturating_sub(answer.fetched_at) >= REFRESH_AFTER,
            Err(_) => true,
        };
        let may_ask = provider.asked_at.is_none_or(|asked_at| uptime.saturating_sub(asked_at) >= FETCH_INTERVAL);
        if is_old && may_ask {
            // Before the requests: a client that disconnects meanwhile must not cause another one at once.
            provider.asked_at = Some(uptime);
            match fetch_answer(settings, &provider.tls, uptime).await {
                Ok(answer) => provider.answer = Ok(answer),
                Err(error) => {
                    tracing::warn!(issuer = settings.issuer, %error, "cannot fetch the keys of the identity provider");
                    if provider.answer.is_err() {
                        provider.answer = Err(error);
                    }
                }
            }
        }
        let answer = provider.answer.clone().map_err(OidcError::Provider)?;
        Ok((provider.tls.clone(), answer))
    }

    fn tls(&self, settings: &OidcSettings) -> Result<ClientTls, OidcError> {
        let files = ClientFiles { ca: settings.ca_file.clone(), ..ClientFiles::default() };
        ClientTls::load(Arc::clone(&self.env.fs), files, &[b"http/1.1"])
            .map_err(|error| OidcError::Settings(error.to_string()))
    }
}

async fn fetch_answer(settings: &OidcSettings, tls: &ClientTls, uptime: Duration) -> Result<ProviderAnswer, String> {
    let get = async |url: &str| -> Result<Bytes, String> {
        let request = FormRequest { url, form: None, authorization: None };
        fetch(request, tls).await.map_err(|error| error.to_string())
    };
    let url = ProviderMetadata::url(&settings.issuer);
    let metadata =
        ProviderMetadata::parse(&get(&url).await?, &settings.issuer).map_err(|fault| format!("{url}: {fault}"))?;
    let keys = KeySet::parse(&get(&metadata.jwks_uri).await?)
        .map_err(|error| format!("{}: it is no set of keys: {error}", metadata.jwks_uri))?;
    Ok(ProviderAnswer { metadata: Arc::new(metadata), keys: Arc::new(keys), fetched_at: uptime })
}
