//! An opened node.
#![expect(clippy::disallowed_types, reason = "the assembly of a node")]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_cluster::{Cluster, Facts, Format, Formats, Roles, Router};
use bucksaw_env::{Env, Net, Tasks};
use bucksaw_ingest::{Queue, SegmentView};
use bucksaw_query::{Answers, Engine, GossipPeers, QueryServer, RepairHints, ReplyTimeouts, Scatter};
use bucksaw_record::Id;
use bucksaw_segment::{OpenError, queue, stored};
use bucksaw_steering::LoadShedder;
use bucksaw_store::erasure::ErasureSpread;
use bucksaw_store::repair::Repair;
use bucksaw_store::{PeerTimeouts, Puller, Replication, SegmentStore, Store, StoreContext};
use tracing::info;

use crate::config::{Config, Environment, Metrics};
use crate::peers::ClusterPeers;

/// The file formats that this version reads and writes.
///
/// A node writes version 1 until it has records of several lines or attributes; then its facts say so.
pub const FORMATS: Formats = Formats {
    queue: Format { reads: queue::VERSION, writes: 1 },
    stored: Format { reads: stored::VERSION, writes: 1 },
};

/// A node with its files open. Cheap to clone.
///
/// It takes part in the cluster's gossip. It answers no calls and runs no tasks until [`Node::start`].
#[derive(Clone, Debug)]
pub struct Node {
    /// Files, time and random numbers.
    pub env: Env,
    /// Tasks and timers.
    pub tasks: Arc<dyn Tasks>,
    /// The network between nodes.
    pub net: Arc<dyn Net>,
    /// The node id.
    pub id: Id,
    /// The tiers that the node runs.
    pub roles: Roles,
    /// The ingest tier.
    pub queue: Arc<Queue>,
    /// Decides about the clients of the ingest tier.
    pub shedder: Arc<LoadShedder>,
    /// The store tier. A node without the role may have records from an earlier run.
    pub store: Arc<dyn Store>,
    /// The parts of the node that the store uses.
    pub store_context: StoreContext,
    /// Exchanges replicas with other stores; `None` if the store replicates by itself.
    pub replication: Option<Replication>,
    /// Spreads erasures to the other nodes.
    pub erasures: ErasureSpread,
    /// The membership.
    pub cluster: Arc<Cluster>,
    /// Answers queries from this node alone.
    pub engine: Arc<Engine>,
    /// Answers queries of other nodes.
    pub query_server: Arc<QueryServer>,
    /// Answers queries from all nodes.
    pub scatter: Arc<Scatter>,
    /// Re-replicates records; `None` without the store role or without `replication`.
    pub repair: Option<Arc<Repair>>,
    pub(crate) busy_bytes_per_second: u64,
}

/// The store of a node that opens.
#[derive(Debug)]
pub enum OpenStore {
    /// The embedded store, whose segments are replicated and repaired.
    Segments(Arc<SegmentStore>),
    /// A store that replicates by itself.
    Other(Arc<dyn Store>),
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeOpenError {
    /// The queue or the store cannot be opened.
    #[error(transparent)]
    Files(#[from] bucksaw_segment::OpenError),
    /// The membership cannot start.
    #[error("cannot join the cluster")]
    Cluster(#[source] io::Error),
}

impl Node {
    /// Answers queries at this node, for the whole cluster.
    pub fn answers(&self) -> Answers {
        Answers::new(Arc::clone(&self.engine), Arc::clone(&self.tasks)).with_scatter(Arc::clone(&self.scatter))
    }

    /// Opens the queue and the segment store of a data directory, and starts to join the cluster.
    ///
    /// The caller holds the lock on the data directory. The queue opens before the store, and both are reconciled before
    /// anything reads them, so that no record is duplicated or missing.
    ///
    /// # Errors
    /// [`NodeOpenError`]. Damage is not an error: damaged files are quarantined and reported.
    pub fn open(config: Config, environment: Environment, metrics: Metrics) -> Result<Self, NodeOpenError> {
        let (dir, settings, store_metrics) = (store_dir(&config), config.store.clone(), metrics.store.clone());
        let sink = config.batch_sink.clone();
        let open_store = |env: &Env, queue: &Queue| {
            let store = SegmentStore::open(env.clone(), &dir, settings, store_metrics)?.with_sink(sink);
            store.reconcile(queue);
            Ok(OpenStore::Segments(Arc::new(store)))
        };
        Self::open_with(config, environment, metrics, open_store)
    }

    /// Like [`Self::open`], with the store that `open_store` opens.
    ///
    /// # Errors
    /// The errors of [`Self::open`] and of `open_store`.
    pub fn open_with(
        config: Config,
        environment: Environment,
        metrics: Metrics,
        open_store: impl FnOnce(&Env, &Queue) -> Result<OpenStore, NodeOpenError>,
    ) -> Result<Self, NodeOpenError> {
        let Environment { env, tasks, net, pool } = environment;
        let (temp_dir, replication_factor) = (store_dir(&config), config.store.replication_factor);
        let queue_dir = config.cluster.data_dir.join("queue");
        let (queue, recovery) = Queue::open(env.clone(), &queue_dir, config.queue, metrics.queue)?;
        if recovery.segments > 0 || recovery.damaged > 0 {
            info!(
                segments = recovery.segments,
                records = recovery.records,
                torn_bytes = recovery.torn_bytes,
                damaged = recovery.damaged,
                "recovered queue segments"
            );
        }
        env.fs.create_dir_all(&temp_dir).map_err(OpenError::io(&temp_dir))?;
        let (store, segments): (Arc<dyn Store>, _) = match open_store(&env, &queue)? {
            OpenStore::Segments(segments) => (Arc::clone(&segments) as _, Some(segments)),
            OpenStore::Other(store) => (store, None),
        };
        let queue = Arc::new(queue);
        let shedder = Arc::new(LoadShedder::new(metrics.steering));
        let engine =
            Engine::new(Arc::clone(&queue), Arc::clone(&store), pool, env.clone(), config.query, metrics.query);
        let engine = Arc::new(engine);
        let mut formats = FORMATS;
        let queued = queue.uncommitted_segments().iter().map(SegmentView::version).max();
        formats.queue.writes = formats.queue.writes.max(queued.unwrap_or_default());
        formats.stored.writes = formats.stored.writes.max(store.status().version).max(formats.queue.writes);
        let facts = Facts { roles: config.roles, clients: config.clients, formats, ..Facts::new(config.id) };
        let (cluster_tasks, cluster_net) = (Arc::clone(&tasks), Arc::clone(&net));
        let cluster = Cluster::start(
            config.cluster,
            env.clone(),
            cluster_tasks,
            cluster_net,
            facts,
            Router::default(),
            metrics.cluster,
        )
        .map_err(NodeOpenError::Cluster)?;
        let store_context = StoreContext {
            node: config.id,
            store: Arc::clone(&store),
            temp_dir,
            env: env.clone(),
            peers: Arc::new(ClusterPeers(Arc::clone(&cluster))),
            tasks: Arc::clone(&tasks),
            net: Arc::clone(&net),
            timeouts: PeerTimeouts::default(),
            metrics: metrics.store,
            is_short_of_descriptors: Arc::default(),
        };
        let erasures = ErasureSpread::new(store_context.clone(), Arc::clone(&queue));
        let (known, clock) = (Arc::clone(&cluster), Arc::clone(&env.clock));
        let replication_factor = if segments.is_some() { replication_factor } else { store.replication_factor() };
        let peers = GossipPeers::new(known, clock, replication_factor, config.has_other_seeds)
            .with_shared_store(segments.is_none())
            .with_erasures(erasures.clone());
        let query_server = QueryServer::new(Arc::clone(&engine), Arc::clone(&tasks), Arc::new(peers));
        let replication = segments.map(|store| Replication { context: store_context.clone(), store });
        let repair = replication.clone().filter(|_| config.roles.store);
        let repair = repair.map(|replication| Arc::new(Repair::new(replication)));
        let hints = repair.clone().map(|repair| Arc::new(ReadRepair(repair)) as Arc<dyn RepairHints>);
        let scatter = Scatter::new(Arc::clone(&query_server), ReplyTimeouts::default(), hints);
        Ok(Self {
            env,
            tasks,
            net,
            id: config.id,
            roles: config.roles,
            queue,
            shedder,
            store,
            store_context,
            replication,
            erasures,
            cluster,
            engine,
            query_server,
            scatter,
            repair,
            busy_bytes_per_second: config.busy_bytes_per_second,
        })
    }

    /// Waits a few seconds at most until the node is a member of its cluster.
    ///
    /// # Errors
    /// The address of another live process with this node id. The caller must not start the node.
    pub async fn wait_joined(&self) -> Result<(), SocketAddr> {
        self.cluster.wait_joined().await
    }

    pub(crate) fn puller(&self) -> Puller {
        // A node without the ingest role may have records in its queue from an earlier run.
        Puller::new(self.store_context.clone(), Some(Arc::clone(&self.queue)))
    }
}

fn store_dir(config: &Config) -> PathBuf {
    config.cluster.data_dir.join("store")
}

/// Passes the time ranges that a query found under-replicated to repair.
#[derive(Debug)]
struct ReadRepair(Arc<Repair>);

impl RepairHints for ReadRepair {
    fn on_under_replicated(&self, low: Id, high: Id) {
        self.0.hint(low.time(), high.time());
    }
}
