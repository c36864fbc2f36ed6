//! The metrics of the cluster.

use bucksaw_env::{MetricLabel, create_series, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::MemberState;

metrics! {
    /// Counters and gauges of the cluster.
    pub struct Metrics {
        pub(crate) members: Family<MetricLabel, Gauge> = "Known nodes, including this one, by state";
        pub(crate) duplicate_ids: Gauge = "Node ids of more than one live node (a data directory was copied)";
        pub(crate) packets_sent: Counter = "Datagrams sent to other nodes";
        pub(crate) packets_received: Counter = "Datagrams received";
        pub(crate) packets_malformed: Counter = "Malformed datagrams received";
        pub(crate) packets_unknown_kind: Counter = "Datagrams of a later minor version, ignored";
        pub(crate) packets_incompatible: Counter = "Datagrams of another major version";
        pub(crate) exchanges_incompatible: Counter = "Digest exchanges of another major version";
        pub(crate) version_skewed_nodes: Gauge = "Live nodes with incompatible versions or file formats";
        pub(crate) members_rejected: Counter = "Members rejected because the member table is full";
        pub(crate) exchanges: Counter = "Digest exchanges with other nodes";
        pub(crate) exchanges_failed: Counter = "Digest exchanges that failed";
        pub(crate) calls_in_flight: Gauge = "Calls of other nodes being answered";
        pub(crate) calls_refused: Counter = "Calls of other nodes refused at the call limit";
    }
}

impl Metrics {
    /// Registers the cluster's metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("cluster"));
        create_series(&metrics.members, "state", MemberState::ALL.map(MemberState::name));
        metrics
    }
}
