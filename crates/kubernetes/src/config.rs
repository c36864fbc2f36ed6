//! Settings.

use std::path::PathBuf;
use std::time::Duration;

use crate::ApiAddress;

/// Where Kubernetes puts the credentials of a pod's service account.
pub const CREDENTIALS_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Which pods are watched, and how.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// The API server.
    pub api: ApiAddress,
    /// The directory with the files `token` and `ca.crt`. Both are read for each connection, because they change.
    pub credentials_dir: PathBuf,
    /// The node whose pods are watched.
    pub node: String,
    /// Limits of time.
    pub timing: WatchTiming,
}

/// Limits of time.
#[derive(Clone, Copy, Debug)]
pub struct WatchTiming {
    /// From the name resolution to the end of the TLS handshake.
    pub connect_max: Duration,
    /// For the head of an answer, and for a list as a whole.
    pub answer_max: Duration,
    /// How long the server is asked to keep a watch open, at least; up to half as much again, so that watches of many agents do
    /// not end at once.
    pub watch: Duration,
    /// How long a watch may last beyond the time that was requested.
    pub grace: Duration,
    /// The delay before the second attempt to connect; it doubles with each failure. Half of each delay is random.
    pub retry_min: Duration,
    /// The longest delay.
    pub retry_max: Duration,
}

impl Default for WatchTiming {
    fn default() -> Self {
        Self {
            connect_max: Duration::from_secs(10),
            answer_max: Duration::from_secs(60),
            watch: Duration::from_secs(300),
            grace: Duration::from_secs(30),
            retry_min: Duration::from_millis(500),
            retry_max: Duration::from_secs(30),
        }
    }
}
