//! Lists the pods of a node, and follows their changes.
//!
//! ```text
//!   list ──► watch from the version of the list ──► ended: watch again from the version of the last event
//!    ▲                                               │
//!    └──── the server has forgotten that version ────┘  (410; also after an event that could not be read)
//! ```
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: a real server, in real time")]

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, log_limited, wait_for_stop};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::api_connection::ApiConnection;
use crate::credentials::Credentials;
use crate::pod_list::{LIST_BYTES_MAX, PodPage};
use crate::retry_delay::retry_delay;
use crate::server_error::ApiServerError;
use crate::watch_event::WatchEvent;
use crate::watch_lines::{EVENT_BYTES_MAX, WatchLines};
use crate::{KubernetesConfig, PodDirectory, PodMetadata};

/// Metadata alone, or else whole pods from a server that knows no such request.
const ACCEPT_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const ACCEPT_EVENTS: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Pods of a page, where the server divides a list.
const PAGE_PODS: usize = 50;

/// The most pages of a list, and all of their bytes.
const PAGES_MAX: usize = 200;
const PAGES_BYTES_MAX: usize = 4 * LIST_BYTES_MAX;

/// Unreadable events in a row after which a watch ends.
const UNREADABLE_MAX: u32 = 16;

/// The longest delay that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A watch that lasted for this time was none that fails.
const STEADY: Duration = Duration::from_secs(10);

/// Keeps a directory of the pods of a node up to date until the stop. A server that is away, refuses or answers nonsense is tried
/// again and again.
pub async fn watch_pods(config: KubernetesConfig, pods: PodDirectory, env: Env, mut stop: watch::Receiver<bool>) {
    let mut watcher = PodWatcher::new(config, pods, env);
    tokio::select! {
        () = watcher.run() => {}
        () = wait_for_stop(&mut stop) => {}
    }
}

struct PodWatcher {
    config: KubernetesConfig,
    credentials: Credentials,
    pods: PodDirectory,
    env: Env,
    /// From where changes are requested; `None` if the pods must be listed.
    version: Option<String>,
    /// Whether the list must be the newest one, in pages. Otherwise the server may answer from its memory, which costs it much
    /// less when an agent starts on each node.
    is_list_exact: bool,
    /// Whether an event was lost, so that the pods are listed again after this watch.
    is_event_lost: bool,
    /// Failures in a row.
    failures: u32,
    /// Whether an event arrived since the last connection.
    has_progress: bool,
    log_limits: LogLimits,
    is_first_list: bool,
}

impl PodWatcher {
    fn new(config: KubernetesConfig, pods: PodDirectory, env: Env) -> Self {
        Self {
            credentials: Credentials::new(Arc::clone(&env.fs), config.credentials_dir.clone()),
            log_limits: LogLimits::new(Arc::clone(&env.clock)),
            config,
            pods,
            env,
            version: None,
            is_list_exact: false,
            is_event_lost: false,
            failures: 0,
            has_progress: false,
            is_first_list: true,
        }
    }

    async fn run(&mut self) {
        loop {
            let started = self.env.clock.uptime();
            self.has_progress = false;
            self.pods.note(|watch| watch.connections += 1);
            let ended = self.list_and_watch().await;
            let now = self.env.clock.uptime();
            // A restart of the server also ends watches that were quiet.
            if self.has_progress || now.saturating_sub(started) >= STEADY {
                self.failures = 0;
            }
            let mut delay = Duration::ZERO;
            if let Err(error) = &ended {
                self.failures = self.failures.saturating_add(1);
                delay = self.note_error(error);
            }
            if std::mem::take(&mut self.is_event_lost) {
                self.version = None;
            }
            self.pods.change(|cache| {
                cache.expire(now);
                false
            });
            let timing = &self.config.timing;
            let limits = (timing.retry_min, timing.retry_max);
            sleep(delay.max(retry_delay(self.failures, limits, self.env.entropy.next_u64()))).await;
        }
    }

    /// Notes why the pods are not watched; returns the delay that the server asks for.
    fn note_error(&mut self, error: &ApiServerError) -> Duration {
        if let ApiServerError::Expired = error {
            self.version = None;
            self.is_list_exact = true;
        }
        if let ApiServerError::ListTooLong = error {
            self.is_list_exact = true;
        }
        self.pods.note(|watch| {
            watch.is_synced = false;
            watch.error = Some(error.to_string());
        });
        // The server forgets versions in ordinary operation.
        if !matches!(error, ApiServerError::Expired) || self.failures > 1 {
            let api = self.config.api.url();
            log_limited!(self.log_limits, warn, %api, %error, "pods are not watched: records lack the labels of new pods");
        }
        match error {
            ApiServerError::Status { retry_after: Some(seconds), .. } => {
                Duration::from_secs(*seconds).min(RETRY_AFTER_MAX)
            }
            _ => Duration::ZERO,
        }
    }

    async fn list_and_watch(&mut self) -> Result<(), ApiServerError> {
        let timing = self.config.timing;
        let mut connection = ApiConnection::open(&self.config.api, &self.credentials, timing.connect_max).await?;
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list(&mut connection).await?,
        };
        self.watch(&mut connection, &version).await
    }

    /// Lists all pods; returns the version of the list.
    async fn list(&mut self, connection: &mut ApiConnection) -> Result<String, ApiServerError> {
        let node = escaped(&format!("spec.nodeName={}", self.config.node));
        let (mut pods, mut unreadable, mut next) = (Vec::<PodMetadata>::new(), 0, None::<String>);
        let (mut pages, mut bytes) = (0, 0);
        let version = loop {
            let mut target = format!("/api/v1/pods?fieldSelector={node}");
            match (&next, self.is_list_exact) {
                (Some(token), _) => target += &format!("&limit={PAGE_PODS}&continue={}", escaped(token)),
                (None, true) => target += &format!("&limit={PAGE_PODS}"),
                (None, false) => target += "&resourceVersion=0",
            }
            let limit = self.config.timing.answer_max;
            let mut body = connection.get((&target, ACCEPT_LIST), &self.credentials, limit).await?;
            let body = body.read(LIST_BYTES_MAX, limit).await?.ok_or(ApiServerError::ListTooLong)?;
            bytes += body.len();
            if bytes > PAGES_BYTES_MAX {
                return Err(ApiServerError::ListTooLong);
            }
            let page = PodPage::decode(&body)?;
            unreadable += page.unreadable;
            pods.extend(page.pods);
            pages += 1;
            match page.next {
                Some(token) if pages < PAGES_MAX => next = Some(token),
                _ => break page.version,
            }
        };
        let (count, now) = (pods.len(), self.env.clock.uptime());
        self.pods.change(|cache| cache.replace(pods, now));
        self.is_list_exact = false;
        self.version = Some(version.clone());
        self.pods.note(|watch| {
            watch.unreadable_events += unreadable;
            watch.last_event = Some(now);
        });
        if std::mem::take(&mut self.is_first_list) {
            let node = &self.config.node;
            match count {
                0 => warn!(%node, "the server knows no pod of this node: is the name of the node right?"),
                _ => info!(%node, pods = count, "watching pods"),
            }
        }
        Ok(version)
    }

    /// Receives changes until the server or an error ends the watch.
    async fn watch(&mut self, connection: &mut ApiConnection, version: &str) -> Result<(), ApiServerError> {
        let timing = self.config.timing;
        let share = self.env.entropy.next_u64() as f64 / u64::MAX as f64 / 2.0;
        let seconds = timing.watch.mul_f64(1.0 + share).as_secs().max(1);
        let target = format!(
            "/api/v1/pods?watch=1&allowWatchBookmarks=true&fieldSelector={}&resourceVersion={}&timeoutSeconds={seconds}",
            escaped(&format!("spec.nodeName={}", self.config.node)),
            escaped(version),
        );
        let mut body = connection.get((&target, ACCEPT_EVENTS), &self.credentials, timing.answer_max).await?;
        self.pods.note(|watch| {
            watch.is_synced = true;
            watch.error = None;
        });
        let (mut lines, mut unreadable_in_row) = (WatchLines::new(EVENT_BYTES_MAX), 0_u32);
        let limit = Duration::from_secs(seconds) + timing.grace;
        while let Some(bytes) = body.next(limit).await? {
            let (mut result, skipped_before) = (Ok(()), lines.skipped());
            lines.push(&bytes, &mut |line| {
                if result.is_ok() {
                    result = self.take_event(line, &mut unreadable_in_row);
                }
            });
            let skipped = lines.skipped() - skipped_before;
            if skipped > 0 {
                self.note_unreadable(skipped, "it is too long");
            }
            result?;
        }
        Ok(())
    }

    fn take_event(&mut self, line: &[u8], unreadable_in_row: &mut u32) -> Result<(), ApiServerError> {
        let now = self.env.clock.uptime();
        let version = match WatchEvent::decode(line) {
            Ok(WatchEvent::Applied { pod, version }) => {
                self.pods.change(|cache| cache.apply(pod));
                version
            }
            Ok(WatchEvent::Deleted { pod, version }) => {
                self.pods.change(|cache| cache.delete(pod, now));
                version
            }
            Ok(WatchEvent::Bookmark { version }) => Some(version),
            Ok(WatchEvent::Expired) => return Err(ApiServerError::Expired),
            Ok(WatchEvent::Refused { code, message }) => {
                return Err(ApiServerError::Status { code, message, retry_after: None });
            }
            Err(error) => {
                self.note_unreadable(1, &error.to_string());
                *unreadable_in_row += 1;
                return if *unreadable_in_row < UNREADABLE_MAX { Ok(()) } else { Err(error.into()) };
            }
        };
        *unreadable_in_row = 0;
        self.has_progress = true;
        if version.is_some() {
            self.version = version;
        }
        self.pods.note(|watch| watch.last_event = Some(now));
        Ok(())
    }

    /// Counts events that cannot be read. What they said is known after the next list.
    fn note_unreadable(&mut self, count: u64, error: &str) {
        self.is_event_lost = true;
        self.pods.note(|watch| watch.unreadable_events += count);
        log_limited!(self.log_limits, warn, error, "an event of a pod cannot be read: pods are listed again");
    }
}

/// A value of a query.
fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
