//! Metrics of request bodies.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Gauges and counters of the memory of request bodies.
#[derive(Clone, Debug)]
pub struct BodyMetrics {
    pub(super) body_bytes: Gauge,
    pub(super) bodies_waiting: Gauge,
    pub(super) bodies_refused: Counter,
}

impl BodyMetrics {
    /// Registers the metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics =
            Self { body_bytes: Gauge::default(), bodies_waiting: Gauge::default(), bodies_refused: Counter::default() };
        let all = metrics.clone();
        registry.register("body_bytes", "Memory reserved by request bodies being ingested", all.body_bytes);
        registry.register("bodies_waiting", "Request bodies waiting for memory", all.bodies_waiting);
        registry.register("bodies_refused", "Request bodies refused with 503 for lack of memory", all.bodies_refused);
        metrics
    }
}
