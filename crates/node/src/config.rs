//! Settings, environment and metrics with which a node is opened.

use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_cluster::{self as cluster, Clients, Roles};
use bucksaw_env::{Env, Net, Tasks};
use bucksaw_ingest as ingest;
use bucksaw_query::{self as query, ScanPool};
use bucksaw_record::Id;
use bucksaw_steering as steering;
use bucksaw_store as store;
use prometheus_client::registry::Registry;

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node id, which belongs to the data directory.
    pub id: Id,
    /// The tiers that the node runs.
    pub roles: Roles,
    /// The addresses that other nodes name to clients.
    pub clients: Clients,
    /// Whether a seed of `cluster.join` is another node. Then answers are partial until the node has reached the cluster.
    pub has_other_seeds: bool,
    /// Settings of the queue, which lies in `queue` of the data directory.
    pub queue: ingest::Config,
    /// Settings of the store, which lies in `store` of the data directory. Its replication factor is that of the cluster.
    pub store: store::Config,
    /// What gets the batches of the store, too.
    pub batch_sink: Option<Arc<dyn store::BatchSink>>,
    /// Settings of queries.
    pub query: query::Config,
    /// Settings of the membership; they name the data directory.
    pub cluster: cluster::Config,
    /// Ingest rate below which the node is never busy, in bytes per second.
    pub busy_bytes_per_second: u64,
}

impl Config {
    /// Default settings of a node with this data directory.
    pub fn new(id: Id, roles: Roles, data_dir: PathBuf) -> Self {
        Self {
            id,
            roles,
            clients: Clients::default(),
            has_other_seeds: false,
            queue: ingest::Config::default(),
            store: store::Config::default(),
            batch_sink: None,
            query: query::Config::default(),
            cluster: cluster::Config::new(data_dir),
            busy_bytes_per_second: steering::BUSY_BYTES_PER_SECOND_DEFAULT,
        }
    }
}

/// The environment of a node, real or simulated.
#[derive(Debug)]
pub struct Environment {
    /// Files, time and random numbers.
    pub env: Env,
    /// Tasks and timers.
    pub tasks: Arc<dyn Tasks>,
    /// The network between nodes.
    pub net: Arc<dyn Net>,
    /// The threads that scan.
    pub pool: ScanPool,
}

/// Metrics of everything that a node opens.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) queue: ingest::Metrics,
    pub(crate) steering: steering::Metrics,
    pub(crate) store: store::Metrics,
    pub(crate) query: query::Metrics,
    pub(crate) cluster: cluster::Metrics,
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        Self {
            queue: ingest::Metrics::new(registry),
            steering: steering::Metrics::new(registry),
            store: store::Metrics::new(registry),
            query: query::Metrics::new(registry),
            cluster: cluster::Metrics::new(registry),
        }
    }
}
