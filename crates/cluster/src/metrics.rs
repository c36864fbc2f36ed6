//! What is counted about the cluster.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::MemberState;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StateLabel {
    pub(crate) state: &'static str,
}

/// Counters and gauges of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) members: Family<StateLabel, Gauge>,
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
        let metrics = Self::default();
        let all = metrics.clone();
        let cluster = registry.sub_registry_with_prefix("cluster");
        cluster.register("members", "Nodes that this node knows, itself among them, by state", all.members);
        cluster.register(
            "duplicate_ids",
            "Node ids claimed by more than one live node (a data directory was copied)",
            all.duplicate_ids,
        );
        cluster.register("packets_sent", "Datagrams sent to other nodes", all.packets_sent);
        cluster.register("packets_received", "Datagrams received", all.packets_received);
        cluster.register("packets_malformed", "Malformed datagrams received", all.packets_malformed);
        let later = "Datagrams of an unknown kind, ignored (a later minor version added it)";
        cluster.register("packets_unknown_kind", later, all.packets_unknown_kind);
        let other = "Datagrams received from nodes that speak another major version";
        cluster.register("packets_incompatible", other, all.packets_incompatible);
        let other = "Digest exchanges requested by nodes of another major version";
        cluster.register("exchanges_incompatible", other, all.exchanges_incompatible);
        let apart = "Nodes that are there, with versions or formats of files that this node does not work with";
        cluster.register("version_skewed_nodes", apart, all.version_skewed);
        cluster.register("members_rejected", "Members rejected because the member table is full", all.members_rejected);
        cluster.register("exchanges", "Digest exchanges with other nodes", all.exchanges);
        cluster.register("exchanges_failed", "Digest exchanges that failed", all.exchanges_failed);
        cluster.register("calls_in_flight", "Calls of other nodes being answered", all.calls_in_flight);
        cluster.register("calls_refused", "Calls of other nodes refused because of too many", all.calls_refused);
        // They should be there to be graphed from the beginning.
        for state in MemberState::ALL {
            drop(metrics.members.get_or_create(&StateLabel { state: state.name() }));
        }
        metrics
    }
}
