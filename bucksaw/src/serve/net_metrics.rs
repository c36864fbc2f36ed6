//! Metrics of the network between nodes.

use std::sync::Arc;

use bucksaw_env::real::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the counters of the network at each scrape.
#[derive(Debug)]
pub(super) struct NetCollector(pub(super) Arc<Counters>);

impl Collector for NetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let counters = &self.0;
        let open = ConstGauge::new(i64::try_from(counters.connections.get()).unwrap_or(i64::MAX));
        let help = "Open connections from other nodes";
        open.encode(encoder.encode_descriptor("net_connections", help, None, open.metric_type())?)?;
        for (name, help, value) in [
            (
                "net_received_bytes",
                "Bytes received from other nodes, in connections and datagrams",
                counters.bytes_in.get(),
            ),
            ("net_sent_bytes", "Bytes sent to other nodes, in connections and datagrams", counters.bytes_out.get()),
            ("net_accepted_connections", "Connections accepted from other nodes", counters.accepted.get()),
            (
                "net_refused_connections",
                "Connections refused: another secret or version, not a node, too slow, or too many",
                counters.refused.get(),
            ),
            (
                "net_rejected_datagrams",
                "Datagrams rejected: another secret or version, or not from a node",
                counters.bad_datagrams.get(),
            ),
            (
                "net_unsent_datagrams",
                "Datagrams not sent: too long, no route, or no buffer space",
                counters.unsent_datagrams.get(),
            ),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}
