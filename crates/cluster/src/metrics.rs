//! The metrics of the cluster.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use crate::MemberState;

/// Counters and gauges of the cluster.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) members: Family<[(&'static str, &'static str); 1], Gauge>,
    pub(crate) duplicate_ids: Gauge,
    pub(crate) packets_sent: Counter,
    pub(crate) packets_received: Counter,
    pub(crate) packets_malformed: Counter,
    pub(crate) packets_unknown_kind: Counter,
    pub(crate) packets_incompatible: Counter,
    pub(crate) exchanges_incompatible: Counter,
    pub(crate) version_skewed: Gauge,
    pub(crate) members_rejected: Counter,
    pub(crate) exchanges: Counter,
    pub(crate) exchanges_failed: Counter,
    pub(crate) calls_in_flight: Gauge,
    pub(crate) calls_refused: Counter,
}

impl Metrics {
    /// Registers the cluster's metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
            let metric = M::default();
            registry.register(name, help, metric.clone());
            metric
        }
        let cluster = registry.sub_registry_with_prefix("cluster");
        let metrics = Self {
            members: add(cluster, "members", "Known nodes, including this one, by state"),
            duplicate_ids: add(
                cluster,
                "duplicate_ids",
                "Node ids of more than one live node (a data directory was copied)",
            ),
            packets_sent: add(cluster, "packets_sent", "Datagrams sent to other nodes"),
            packets_received: add(cluster, "packets_received", "Datagrams received"),
            packets_malformed: add(cluster, "packets_malformed", "Malformed datagrams received"),
            packets_unknown_kind: add(cluster, "packets_unknown_kind", "Datagrams of a later minor version, ignored"),
            packets_incompatible: add(cluster, "packets_incompatible", "Datagrams of another major version"),
            exchanges_incompatible: add(cluster, "exchanges_incompatible", "Digest exchanges of another major version"),
            version_skewed: add(
                cluster,
                "version_skewed_nodes",
                "Live nodes with incompatible versions or file formats",
            ),
            members_rejected: add(cluster, "members_rejected", "Members rejected because the member table is full"),
            exchanges: add(cluster, "exchanges", "Digest exchanges with other nodes"),
            exchanges_failed: add(cluster, "exchanges_failed", "Digest exchanges that failed"),
            calls_in_flight: add(cluster, "calls_in_flight", "Calls of other nodes being answered"),
            calls_refused: add(cluster, "calls_refused", "Calls of other nodes refused at the call limit"),
        };
        for state in MemberState::ALL {
            drop(metrics.members.get_or_create(&[("state", state.name())]));
        }
        metrics
    }
}
