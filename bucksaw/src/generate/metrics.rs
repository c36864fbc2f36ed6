//! The figures of a run as metrics.

use std::fmt;

use bucksaw_env::Env;
use bucksaw_forward::serve_metrics;
use bucksaw_sources::Acceptor;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::info;

use super::load_totals::LoadCounters;
use crate::bind::bind;
use crate::values::{ListenAddress, machine_name};

/// Serves the metrics until the stop, if an address is given.
pub(super) async fn serve(
    listen: &ListenAddress,
    counters: &LoadCounters,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = bind("--listen", listen).await? else { return Ok(()) };
    if let Ok(address) = listener.local_addr() {
        info!(%address, "metrics");
    }
    let counters = counters.clone();
    let acceptor = Acceptor::new(listener, Env::real().clock, Counter::default());
    tokio::spawn(serve_metrics(acceptor, machine_name(), move || text(&counters), stop));
    Ok(())
}

/// The metrics as OpenMetrics text.
fn text(counters: &LoadCounters) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(LoadCollector(counters.clone())));
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct LoadCollector(LoadCounters);

impl Collector for LoadCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.0.totals();
        for (name, help, value) in [
            ("written_records", "Records that were sent", totals.written_records),
            ("written_bytes", "Bytes of their text", totals.written_bytes),
            ("acked_records", "Records that the node has acknowledged", totals.acked_records),
            ("acked_bytes", "Bytes of their text", totals.acked_bytes),
            ("late_records", "Records left out because the node took less than the rate", totals.late_records),
        ] {
            let name = format!("bucksaw_generate_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_totals() {
        let counters = LoadCounters::default();
        counters.add_written(3, 300);
        counters.add_acked(2, 200);
        let text = text(&counters);
        for want in
            ["bucksaw_generate_written_records_total 3\n", "bucksaw_generate_acked_bytes_total 200\n", "# EOF\n"]
        {
            assert!(text.contains(want), "{text}");
        }
    }
}
