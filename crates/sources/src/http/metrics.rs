//! Metrics of request bodies.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::register;

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
        Self {
            body_bytes: register(registry, "body_bytes", "Memory reserved by request bodies being ingested"),
            bodies_waiting: register(registry, "bodies_waiting", "Request bodies waiting for memory"),
            bodies_refused: register(registry, "bodies_refused", "Request bodies refused with 503 for lack of memory"),
        }
    }
}
