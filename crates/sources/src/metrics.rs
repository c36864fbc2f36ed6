//! Metrics of the TCP listeners. The queue counts records by source.

use bucksaw_env::{MetricLabel, create_series, metrics};
use bucksaw_ingest::Durability;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

metrics! {
    /// Counters and gauges of all listeners of a node.
    pub struct Metrics {
        pub(crate) connections: Family<MetricLabel, Gauge> = "TCP connections that are open";
        // Not `connections_total`: to a parser that is the same metric as the gauge.
        pub(crate) connections_opened: Family<MetricLabel, Counter> = "TCP connections accepted";
        pub(crate) connections_refused: Family<MetricLabel, Counter> = "TCP connections closed at once because all slots were in use";
        pub(crate) accept_failed: Counter = "TCP connections that could not be accepted";
        pub(crate) protocol_errors: Counter = "Protocol errors of framed clients";
        pub(crate) http_refused: Counter = "Connections refused because they spoke HTTP at a port for lines";
        pub(crate) tls_refused: Counter = "Connections refused because they spoke TLS at a port without it";
        pub(crate) dropped_bytes: Counter = "Bytes of lines read and not kept: shutdown or write errors";
        pub(crate) dropped_events: Family<MetricLabel, Counter> = "Records of other protocols read and not kept: shutdown or write errors";
        pub(crate) dropped_datagrams: Family<MetricLabel, Counter> = "Datagrams that the kernel dropped because they were not read in time";
        pub(crate) dropped_chunked: Family<MetricLabel, Counter> = "Messages in several datagrams that were dropped because not all arrived in time, or memory was short";
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("sources"));
        let ports = [Durability::Fast, Durability::Durable, Durability::Bulk].map(Durability::name);
        create_series(&metrics.connections, "listener", ports);
        create_series(&metrics.connections_opened, "listener", ports);
        create_series(&metrics.connections_refused, "listener", ports);
        metrics
    }
}
