//! Recognises clients by the auth file, and reloads the file when it changes.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bucksaw_env::{
    Env, FileStat, LogLimits, Reload, Reloads, Tasks, lock, log_limited, run_blocking, set_gauge, wait_for_stop,
};
use bucksaw_record::Millis;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::auth_state::{AuthState, LoadedFile};
use crate::failed_attempts::FailedAttempts;
use crate::grant::RecognisedBy;
use crate::presented::{ExternalUser, Presented};
use crate::{
    AccessScopes, AuthFileError, AuthRefusal, AuthRefusalReason, AuthRules, FILE_BYTES_MAX, Grant, Metrics,
    OidcSettings, Principal, SecretText, TokenDigest,
};

/// How often the file is looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Recognises clients. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authenticator {
    state: Arc<AuthState>,
}

/// What a node reports about its auth file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthStatus {
    /// The credentials in use.
    pub credentials: usize,
    /// When the version in use was read.
    pub loaded_at: Millis,
}

impl Authenticator {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`AuthFileError`]: a node does not start with a file that is not valid.
    pub fn open(path: &Path, env: Env, metrics: Metrics) -> Result<Self, AuthFileError> {
        let (stat, rules) = read(&env, path)?;
        if rules.credentials() == 0 {
            warn!(path = %path.display(), "the auth file has no credential: every request is refused");
        }
        set_gauge(&metrics.credentials, rules.credentials() as u64);
        let loaded_at = Millis(env.clock.unix_ms());
        let file = LoadedFile { stat: Some(stat), loaded_at, is_in_use: true };
        Ok(Self {
            state: Arc::new(AuthState {
                log_limits: LogLimits::new(Arc::clone(&env.clock)),
                env,
                path: path.to_owned(),
                rules: RwLock::new((1, Arc::new(rules))),
                file: Mutex::new(file),
                attempts: FailedAttempts::default(),
                usage: Mutex::default(),
                metrics,
            }),
        })
    }

    /// Recognises a client. `listener` is the name of the listener in metrics.
    ///
    /// # Errors
    /// [`AuthRefusal`], which is counted and logged; the caller reports it after its delay.
    pub fn authenticate(
        &self,
        listener: &'static str,
        peer: IpAddr,
        presented: &Presented<'_>,
    ) -> Result<Arc<Grant>, AuthRefusal> {
        let (version, rules) = self.state.current();
        self.recognise(&rules, presented)
            .and_then(|(principal, by)| self.grant(version, principal, by))
            .map_err(|reason| self.refuse(listener, peer, reason))
    }

    /// Recognises a sender of Fluentd's protocol by the name of a token, of which `check` compares the password: the digest of
    /// the token in hexadecimal digits, if its entry allows that.
    ///
    /// # Errors
    /// As [`Self::authenticate`].
    pub fn authenticate_fluentd(
        &self,
        listener: &'static str,
        peer: IpAddr,
        name: &str,
        check: impl FnOnce(&SecretText) -> bool,
    ) -> Result<Arc<Grant>, AuthRefusal> {
        let (version, rules) = self.state.current();
        let found = rules.by_name(name).filter(|(_, principal)| principal.may_use_fluentd);
        let found = found.filter(|(digest, _)| check(&SecretText::new(digest.to_string())));
        found
            .ok_or(AuthRefusalReason::Unknown)
            .and_then(|(digest, principal)| self.grant(version, Arc::clone(principal), RecognisedBy::Token(*digest)))
            .map_err(|reason| self.refuse(listener, peer, reason))
    }

    /// The grant of senders that have proven to know the shared key of a listener: they may write records of any labels.
    pub fn shared_key_grant(&self, listener: &'static str) -> Arc<Grant> {
        let principal = Arc::new(Principal {
            name: format!("{listener}-shared-key"),
            scopes: AccessScopes::from_iter([crate::AccessScope::Ingest]),
            labels: bucksaw_record::Labels::default(),
            tenants: Vec::new(),
            expires: None,
            limits: crate::ClientLimits::default(),
            may_use_fluentd: false,
        });
        let (version, _) = self.state.current();
        self.grant_of(version, principal, RecognisedBy::SharedKey)
    }

    /// The user that a reverse proxy states, if the request comes from an address of the proxy. `header` gives the value of a
    /// header.
    pub fn proxied_user<'a>(&self, peer: IpAddr, header: impl Fn(&str) -> Option<&'a str>) -> Option<ExternalUser> {
        let (_, rules) = self.state.current();
        let proxy = rules.proxy.as_ref().filter(|proxy| proxy.from.contains(&peer.to_canonical()))?;
        let groups = proxy.groups_header.as_deref().and_then(&header).unwrap_or_default();
        ExternalUser::of_headers(header(&proxy.user_header)?, groups)
    }

    /// The identity provider of the page and the API, if the file has one.
    pub fn oidc(&self) -> Option<Arc<OidcSettings>> {
        self.state.current().1.oidc.clone()
    }

    /// Counts and logs a refusal, also one for a reason that only the caller knows. Returns it with its delay.
    pub fn refuse(&self, listener: &'static str, peer: IpAddr, reason: AuthRefusalReason) -> AuthRefusal {
        let state = &self.state;
        state.metrics.count_refused(listener, reason);
        // A client without a credential guesses nothing.
        let delay = match reason {
            AuthRefusalReason::Unknown | AuthRefusalReason::Expired => {
                state.attempts.count(peer, state.env.clock.uptime())
            }
            _ => Duration::ZERO,
        };
        log_limited!(state.log_limits, warn, listener, %peer, reason = reason.name(), "a client is refused");
        AuthRefusal { reason, delay }
    }

    fn recognise(
        &self,
        rules: &AuthRules,
        presented: &Presented<'_>,
    ) -> Result<(Arc<Principal>, RecognisedBy), AuthRefusalReason> {
        let found = if let Some(token) = presented.token {
            let digest = TokenDigest::of(token.expose());
            rules.by_digest(&digest).map(|principal| (Arc::clone(principal), RecognisedBy::Token(digest)))
        } else if let Some(user) = presented.user {
            rules.by_groups(user).map(|principal| (Arc::new(principal), RecognisedBy::Proxy(user.clone())))
        } else if let Some(names) = presented.certificate {
            let found = rules.by_certificate(names);
            found.map(|(name, principal)| (Arc::clone(principal), RecognisedBy::Certificate(name.to_owned())))
        } else {
            return Err(AuthRefusalReason::Missing);
        };
        found.ok_or(AuthRefusalReason::Unknown)
    }

    fn grant(
        &self,
        version: u64,
        principal: Arc<Principal>,
        by: RecognisedBy,
    ) -> Result<Arc<Grant>, AuthRefusalReason> {
        let now = Millis(self.state.env.clock.unix_ms());
        match principal.expires.is_some_and(|expires| now >= expires) {
            true => Err(AuthRefusalReason::Expired),
            false => Ok(self.grant_of(version, principal, by)),
        }
    }

    fn grant_of(&self, version: u64, principal: Arc<Principal>, by: RecognisedBy) -> Arc<Grant> {
        let usage = self.state.usage_of(&principal.name);
        Arc::new(Grant { principal, by, usage, state: Arc::clone(&self.state), version: AtomicU64::new(version) })
    }

    /// What the node reports about the file.
    pub fn status(&self) -> AuthStatus {
        let (_, rules) = self.state.current();
        let file = lock(&self.state.file);
        AuthStatus { credentials: rules.credentials(), loaded_at: file.loaded_at }
    }

    /// Reloads the file whenever it changes, until `stop` is true or its sender is gone.
    pub async fn reload_changes(self, tasks: Arc<dyn Tasks>, reloads: Reloads, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tasks.sleep(RELOAD_INTERVAL) => {}
                () = wait_for_stop(&mut stop) => return,
            }
            let (authenticator, reloads) = (self.clone(), reloads.clone());
            // Reading may wait for the disk. A panic would be a bug, and leaves the last rules in use.
            let _ = run_blocking(&tasks, move || authenticator.reload(&reloads)).await;
        }
    }

    /// Reads the file if it has changed since it was last read. A file that is not valid changes nothing but `reloads`.
    pub fn reload(&self, reloads: &Reloads) {
        let state = &self.state;
        let stat = state.env.fs.stat(&state.path).ok();
        {
            let file = lock(&state.file);
            if file.stat == stat && !(stat.is_none() && file.is_in_use) {
                return;
            }
        }
        let report = |failure| reloads.report(&Reload { name: "auth file", path: &state.path, failure });
        match read(&state.env, &state.path) {
            Ok((stat, rules)) => {
                let credentials = rules.credentials();
                {
                    let mut current = state.rules.write().unwrap_or_else(PoisonError::into_inner);
                    *current = (current.0 + 1, Arc::new(rules));
                }
                let loaded_at = Millis(state.env.clock.unix_ms());
                *lock(&state.file) = LoadedFile { stat: Some(stat), loaded_at, is_in_use: true };
                state.metrics.reloads.inc();
                state.metrics.file_invalid.set(0);
                set_gauge(&state.metrics.credentials, credentials as u64);
                info!(path = %state.path.display(), credentials, "the auth file was reloaded");
                report(None);
            }
            Err(failure) => {
                error!(path = %state.path.display(), error = %failure, "the auth file is not valid: its last valid version stays in use");
                {
                    let mut file = lock(&state.file);
                    (file.stat, file.is_in_use) = (stat, false);
                }
                state.metrics.file_invalid.set(1);
                report(Some(&failure.to_string()));
            }
        }
    }
}

/// Reads a file, and its state before.
fn read(env: &Env, path: &Path) -> Result<(FileStat, AuthRules), AuthFileError> {
    let missing = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => AuthFileError::Missing,
        _ => AuthFileError::Io(error),
    };
    let stat = env.fs.stat(path).map_err(missing)?;
    if env.fs.mode(path)? & 0o002 != 0 {
        return Err(AuthFileError::WritableByAll);
    }
    if stat.size > FILE_BYTES_MAX {
        return Err(AuthFileError::TooLong);
    }
    let bytes = bucksaw_env::read_file(&*env.fs, path, FILE_BYTES_MAX)?.ok_or(AuthFileError::Missing)?;
    let text = String::from_utf8(bytes).map_err(|_| AuthFileError::NotUtf8)?;
    Ok((stat, AuthRules::parse(&text)?))
}
