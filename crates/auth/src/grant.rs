//! The right of a client, which is checked again while its connection lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_record::Millis;

use crate::auth_state::AuthState;
use crate::client_usage::{ClientUsage, QuerySlot};
use crate::presented::ExternalUser;
use crate::{AuthRules, Principal, TokenDigest};

/// By what a client was recognised, so that a later version of the file is asked the same.
#[derive(Clone, Debug)]
pub(crate) enum RecognisedBy {
    Token(TokenDigest),
    Certificate(String),
    Proxy(ExternalUser),
    /// The shared key of a listener, which no file has.
    SharedKey,
}

impl RecognisedBy {
    fn principal(&self, rules: &AuthRules) -> Option<Arc<Principal>> {
        match self {
            Self::Token(digest) => rules.by_digest(digest).cloned(),
            Self::Certificate(name) => rules.certificates.get(name).cloned(),
            Self::Proxy(user) => rules.by_groups(user).map(Arc::new),
            Self::SharedKey => None,
        }
    }
}

/// A client that was recognised. A connection or stream that lives long asks [`Self::is_valid`] again, so that it ends when its
/// credential is revoked, changed, or expires.
#[derive(Debug)]
pub struct Grant {
    pub(crate) principal: Arc<Principal>,
    pub(crate) by: RecognisedBy,
    pub(crate) usage: Arc<ClientUsage>,
    pub(crate) state: Arc<AuthState>,
    /// The version of the rules in which the principal was last found unchanged.
    pub(crate) version: AtomicU64,
}

impl Grant {
    /// Who the client is.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether the credential still has the same rights. Costs two loads while the file is unchanged.
    pub fn is_valid(&self) -> bool {
        if self.principal.expires.is_some_and(|expires| Millis(self.state.env.clock.unix_ms()) >= expires) {
            return false;
        }
        let (version, rules) = self.state.current();
        if self.version.load(Ordering::Relaxed) == version || matches!(self.by, RecognisedBy::SharedKey) {
            return true;
        }
        let is_same = self.by.principal(&rules).is_some_and(|principal| principal == self.principal);
        if is_same {
            self.version.store(version, Ordering::Relaxed);
        }
        is_same
    }

    /// Counts accepted text, in bytes.
    pub fn count_bytes(&self, bytes: u64) {
        if let Some(rate) = self.principal.limits.bytes_per_second {
            self.usage.add_bytes(rate, bytes, self.state.env.clock.uptime());
        }
    }

    /// How long to wait before more text is accepted; zero if it is now.
    pub fn bytes_delay(&self) -> Duration {
        let rate = self.principal.limits.bytes_per_second;
        rate.map_or(Duration::ZERO, |rate| self.usage.delay(rate, self.state.env.clock.uptime()))
    }

    /// A slot for a query in flight; `None` if the principal has as many as it may.
    pub fn try_query(&self) -> Option<QuerySlot> {
        self.usage.try_query(self.principal.limits.queries_max)
    }
}
