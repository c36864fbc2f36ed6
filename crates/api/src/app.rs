//! What the handlers share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bucksaw_cluster::Cluster;
use bucksaw_doors::{Body, Doors};
use bucksaw_ingest::Queue;
use bucksaw_query::{Engine, Scatter};
use bucksaw_record::Millis;
use bucksaw_store::repair::Repair;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::history::History;
use crate::ingest::{Budget, KeySync};
use crate::metrics::Metrics;
use crate::node;

/// What a node says of itself.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Its id: drawn when its data directory was made.
    pub id: String,
    /// The program's version.
    pub version: String,
    /// `ingest`, `store`.
    pub roles: Vec<String>,
    /// The address of each listener, by its name: `http`, `fast`, …
    pub addresses: BTreeMap<String, String>,
    /// Memory that it may use.
    pub memory_limit_bytes: u64,
}

/// The state behind the handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    pub(crate) engine: Arc<Engine>,
    scatter: Option<Arc<Scatter>>,
    pub(crate) doors: Doors,
    pub(crate) config: Arc<Config>,
    pub(crate) info: Arc<NodeInfo>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) bodies: Budget,
    pub(crate) metrics: Metrics,
    pub(crate) ingests: Arc<Semaphore>,
    pub(crate) key_sync: KeySync,
    pub(crate) queries: Arc<Semaphore>,
    pub(crate) answers: Arc<Semaphore>,
    pub(crate) tails: Arc<Semaphore>,
    pub(crate) history: Arc<History>,
    pub(crate) place: Option<Place>,
    pub(crate) repair: Option<Arc<Repair>>,
    ready: Arc<AtomicBool>,
}

/// A node's place among others.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) cluster: Arc<Cluster>,
    /// The replication factor.
    pub(crate) copies: u32,
}

impl App {
    /// The surface of a node. It is ready until [`Self::set_ready`] says otherwise.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        doors: Doors,
        config: Config,
        metrics: Metrics,
        info: NodeInfo,
        registry: Registry,
    ) -> Self {
        let bodies =
            Budget::new(config.bodies_bytes_max, config.body_bytes_max(), config.bodies_wait_max, metrics.clone());
        Self {
            engine,
            scatter: None,
            doors,
            bodies,
            metrics,
            ingests: Arc::new(Semaphore::new(config.ingests_max)),
            key_sync: KeySync::default(),
            queries: Arc::new(Semaphore::new(config.queries_max)),
            answers: Arc::new(Semaphore::new(config.answers_max)),
            tails: Arc::new(Semaphore::new(config.tails_max)),
            history: Arc::default(),
            config: Arc::new(config),
            info: Arc::new(info),
            registry: Arc::new(registry),
            place: None,
            repair: None,
            ready: Arc::new(AtomicBool::new(true)),
        }
    }

    /// The same with questions that are asked of all nodes of the cluster.
    #[must_use]
    pub fn asking(self, scatter: Arc<Scatter>) -> Self {
        Self { scatter: Some(scatter), ..self }
    }

    /// Who asks all nodes; `None` while this node is alone, and its engine's answers are those of the cluster.
    pub(crate) fn scatter(&self) -> Option<&Arc<Scatter>> {
        self.scatter.as_ref().filter(|scatter| !scatter.is_alone())
    }

    /// Lets it tell how restoring copies is getting on, where that is done. To be called before [`Self::in_cluster`].
    #[must_use]
    pub fn restoring(self, repair: Option<Arc<Repair>>) -> Self {
        Self { repair, ..self }
    }

    /// Lets it tell of the other nodes, too, and them of this one. Each record is kept on `copies` stores.
    #[must_use]
    pub fn in_cluster(mut self, cluster: Arc<Cluster>, copies: u32) -> Self {
        let app = self.clone();
        cluster.router().add(node::STATUS, move |_: Body| node::answer(app.clone()));
        self.place = Some(Place { cluster, copies });
        self
    }

    /// Says whether the node wants traffic: no longer once it is about to stop.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        self.engine.queue()
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.doors.clock.unix_ms())
    }
}
