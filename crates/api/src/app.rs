//! The state that all handlers share.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_auth::Authenticator;
use bucksaw_cluster::Cluster;
use bucksaw_env::{Env, Reloads};
use bucksaw_ingest::Queue;
use bucksaw_oidc::IdentityProvider;
use bucksaw_query::{Answers, Engine};
use bucksaw_record::Millis;
use bucksaw_sources::http::BodyIntake;
use bucksaw_sources::intake::EventFilter;
use bucksaw_sources::{AgentRegistry, AuditTrail, Intake};
use bucksaw_steering::LoadShedder;
use bucksaw_store::erasure::ErasureSpread;
use bucksaw_store::repair::Repair;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::admission::Admission;
use crate::config::Config;
use crate::history::History;
use crate::metrics::Metrics;

/// What a node reports about itself besides its state.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Its id.
    pub id: String,
    /// The name of its machine; empty if unknown.
    pub host: String,
    /// The program's version.
    pub version: String,
    /// `ingest`, `store`.
    pub roles: Vec<String>,
    /// The address of each listener by name: `http`, `fast`, …
    pub addresses: BTreeMap<String, String>,
    /// The memory limit.
    pub memory_limit_bytes: u64,
    /// The names of listeners that other machines can reach and that do not authenticate clients.
    pub insecure_listeners: Vec<String>,
}

/// A part of a node's status that a crate beside this one reports, such as a source.
pub trait StatusPart: Debug + Send + Sync {
    /// The key in the status of the node.
    fn key(&self) -> &'static str;

    /// The value: an object, or `null` while it is not known. Called for each status; it must not block.
    fn value(&self) -> Value;

    /// Called every few seconds with the uptime of the node and its metrics in OpenMetrics text; it must not block.
    fn observe(&self, _uptime: Duration, _metrics: &str) {}
}

/// The state behind the handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<AppState>);

/// What the handlers find in an [`App`]. Each middleware clones the app for each request, so this is shared.
#[derive(Clone, Debug)]
pub struct AppState {
    pub(crate) answers: Answers,
    pub(crate) env: Env,
    pub(crate) config: Arc<Config>,
    pub(crate) info: Arc<NodeInfo>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) bodies: BodyIntake,
    pub(crate) shedder: Arc<LoadShedder>,
    pub(crate) metrics: Metrics,
    pub(crate) admission: Arc<Admission>,
    pub(crate) query_permits: Arc<Semaphore>,
    pub(crate) answer_permits: Arc<Semaphore>,
    pub(crate) tail_permits: Arc<Semaphore>,
    pub(crate) compression_permits: Arc<Semaphore>,
    pub(crate) history: Arc<History>,
    pub(crate) membership: Option<ClusterMembership>,
    pub(crate) repair: Option<Arc<Repair>>,
    /// `None` where nothing can be erased.
    pub(crate) erasures: Option<ErasureSpread>,
    pub(crate) agents: Arc<AgentRegistry>,
    /// `None` if every client may do everything.
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) provider: IdentityProvider,
    pub(crate) audit: Option<Arc<AuditTrail>>,
    pub(crate) reloads: Reloads,
    pub(crate) status_parts: Vec<Arc<dyn StatusPart>>,
    ready: Arc<AtomicBool>,
}

/// The cluster of a node.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMembership {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) replication_factor: u32,
}

impl App {
    /// The surface of a node. It is ready until [`Self::set_ready`] changes that.
    #[must_use]
    pub fn new(
        answers: Answers,
        shedder: Arc<LoadShedder>,
        env: Env,
        config: Config,
        metrics: Metrics,
        info: NodeInfo,
        registry: Registry,
    ) -> Self {
        let provider = IdentityProvider::new(env.clone());
        let intake = Intake::new(Arc::clone(answers.engine().queue()), env.clone());
        let bodies = BodyIntake::new(intake, config.body_limits(), metrics.bodies.clone());
        let config = Arc::new(config);
        Self(Arc::new(AppState {
            answers,
            env,
            bodies,
            shedder,
            admission: Admission::new(Arc::clone(&config), metrics.clone()),
            metrics,
            query_permits: Arc::new(Semaphore::new(config.queries_max)),
            answer_permits: Arc::new(Semaphore::new(config.answers_max)),
            tail_permits: Arc::new(Semaphore::new(config.tails_max)),
            compression_permits: Arc::new(Semaphore::new(config.compressed_max)),
            history: Arc::default(),
            config,
            info: Arc::new(info),
            registry: Arc::new(registry),
            membership: None,
            repair: None,
            erasures: None,
            agents: Arc::default(),
            authenticator: None,
            provider,
            audit: None,
            reloads: Reloads::default(),
            status_parts: Vec::new(),
            ready: Arc::new(AtomicBool::new(true)),
        }))
    }

    /// The same after a change, which earlier clones do not see.
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut AppState)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The same with a filter of the events that senders of other protocols send.
    #[must_use]
    pub fn with_event_filter(self, filter: Option<Arc<dyn EventFilter>>) -> Self {
        self.changed(|app| app.bodies = app.bodies.clone().with_filter(filter))
    }

    /// Recognises clients by this authenticator, and refuses others.
    #[must_use]
    pub fn with_authenticator(self, authenticator: Option<Authenticator>) -> Self {
        self.changed(|app| app.authenticator = authenticator)
    }

    /// The same with an audit trail, or without one.
    #[must_use]
    pub fn with_audit(self, audit: Option<Arc<AuditTrail>>) -> Self {
        self.changed(|app| app.audit = audit)
    }

    /// The same with the reloads of changed files, for the status.
    #[must_use]
    pub fn with_reloads(self, reloads: Reloads) -> Self {
        self.changed(|app| app.reloads = reloads)
    }

    /// Adds the progress of repair to the status. Call it before [`Self::with_cluster`].
    #[must_use]
    pub fn with_repair(self, repair: Option<Arc<Repair>>) -> Self {
        self.changed(|app| app.repair = repair)
    }

    /// The same with erasures, which this spreads to the other nodes.
    #[must_use]
    pub fn with_erasures(self, erasures: Option<ErasureSpread>) -> Self {
        self.changed(|app| app.erasures = erasures)
    }

    /// Adds a part to the status. Call it before [`Self::with_cluster`].
    #[must_use]
    pub fn with_status_part(self, part: Option<Arc<dyn StatusPart>>) -> Self {
        self.changed(|app| app.status_parts.extend(part))
    }

    /// Sets whether the node is ready for traffic; `false` while it stops.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.answers.engine()
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        self.engine().queue()
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.env.clock.unix_ms())
    }
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}
