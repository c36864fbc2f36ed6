//! What the listeners count. Records are counted by the queue, by source.

use bucksaw_ingest::Durability;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The label `durability`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByDurability {
    /// `fast`, `durable` or `bulk`.
    pub durability: &'static str,
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
    /// Registers the listeners' metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            connections: Family::default(),
            opened: Family::default(),
            refused: Family::default(),
            accept_failed: Counter::default(),
            protocol_errors: Counter::default(),
            http_refused: Counter::default(),
            dropped_bytes: Counter::default(),
        };
        let all = metrics.clone();
        let sources = registry.sub_registry_with_prefix("sources");
        sources.register("connections", "TCP connections that are open", all.connections);
        // Not `connections_total`: to a parser that would be the same metric as the gauge.
        sources.register("connections_opened", "TCP connections accepted", all.opened);
        sources.register(
            "connections_refused",
            "TCP connections closed at once because all slots were in use",
            all.refused,
        );
        sources.register("accept_failed", "TCP connections that could not be accepted", all.accept_failed);
        sources.register("protocol_errors", "Protocol errors of framed clients", all.protocol_errors);
        sources.register(
            "http_refused",
            "Connections refused because they spoke HTTP at a port for lines",
            all.http_refused,
        );
        sources.register(
            "dropped_bytes",
            "Bytes of lines read and not kept: shutdown or write errors",
            all.dropped_bytes,
        );
        for durability in [Durability::Fast, Durability::Durable, Durability::Bulk] {
            let by = ByDurability { durability: durability.name() };
            drop(metrics.connections.get_or_create(&by));
            drop(metrics.opened.get_or_create(&by));
            drop(metrics.refused.get_or_create(&by));
        }
        metrics
    }
}
