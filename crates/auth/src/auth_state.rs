//! What an authenticator and the grants that it gave share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bucksaw_env::{Env, FileStat, LogLimits, lock};
use bucksaw_record::Millis;

use crate::client_usage::ClientUsage;
use crate::failed_attempts::FailedAttempts;
use crate::{AuthRules, Metrics};

/// What all clones and grants share.
#[derive(Debug)]
pub(crate) struct AuthState {
    pub(crate) env: Env,
    pub(crate) path: PathBuf,
    /// The rules in use, with their number, which counts up.
    pub(crate) rules: RwLock<(u64, Arc<AuthRules>)>,
    pub(crate) file: Mutex<LoadedFile>,
    pub(crate) attempts: FailedAttempts,
    /// The usage of each principal by name; of users of a proxy, too.
    pub(crate) usage: Mutex<HashMap<String, Arc<ClientUsage>>>,
    pub(crate) metrics: Metrics,
    pub(crate) log_limits: LogLimits,
}

/// The version of the file that was looked at last.
#[derive(Debug, Default)]
pub(crate) struct LoadedFile {
    pub(crate) stat: Option<FileStat>,
    pub(crate) loaded_at: Millis,
    /// Whether it was valid.
    pub(crate) is_in_use: bool,
}

impl AuthState {
    /// The rules in use, with their number.
    pub(crate) fn current(&self) -> (u64, Arc<AuthRules>) {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        (rules.0, Arc::clone(&rules.1))
    }

    pub(crate) fn usage_of(&self, name: &str) -> Arc<ClientUsage> {
        let mut usage = lock(&self.usage);
        if let Some(known) = usage.get(name) {
            return Arc::clone(known);
        }
        // Those without a connection have a full balance soon; only users of a proxy have many names.
        usage.retain(|_, usage| Arc::strong_count(usage) > 1);
        Arc::clone(usage.entry(name.to_owned()).or_default())
    }
}
