//! Metrics of the TCP listeners. The queue counts records by source.

use bucksaw_ingest::Durability;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// The label `durability`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByDurability {
    pub(crate) durability: &'static str,
}

/// Counters and gauges of all listeners of a node.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) connections: Family<ByDurability, Gauge>,
    pub(crate) opened: Family<ByDurability, Counter>,
    pub(crate) refused: Family<ByDurability, Counter>,
    pub(crate) accept_failed: Counter,
    pub(crate) protocol_errors: Counter,
    pub(crate) http_refused: Counter,
    pub(crate) dropped_bytes: Counter,
}

impl Metrics {
    /// Registers the metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let sources = registry.sub_registry_with_prefix("sources");
        let refused = "TCP connections closed at once because all slots were in use";
        let http_refused = "Connections refused because they spoke HTTP at a port for lines";
        let dropped_bytes = "Bytes of lines read and not kept: shutdown or write errors";
        let metrics = Self {
            connections: register(sources, "connections", "TCP connections that are open"),
            // Not `connections_total`: to a parser that is the same metric as the gauge.
            opened: register(sources, "connections_opened", "TCP connections accepted"),
            refused: register(sources, "connections_refused", refused),
            accept_failed: register(sources, "accept_failed", "TCP connections that could not be accepted"),
            protocol_errors: register(sources, "protocol_errors", "Protocol errors of framed clients"),
            http_refused: register(sources, "http_refused", http_refused),
            dropped_bytes: register(sources, "dropped_bytes", dropped_bytes),
        };
        for durability in [Durability::Fast, Durability::Durable, Durability::Bulk] {
            let by = ByDurability { durability: durability.name() };
            drop(metrics.connections.get_or_create(&by));
            drop(metrics.opened.get_or_create(&by));
            drop(metrics.refused.get_or_create(&by));
        }
        metrics
    }
}

/// Registers a new metric.
pub(crate) fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}
