//! Metrics of request bodies.

use bucksaw_env::metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

metrics! {
    /// Gauges and counters of the memory of request bodies.
    #[derive(Default)]
    pub struct BodyMetrics {
        pub(super) body_bytes: Gauge = "Memory reserved by request bodies being ingested";
        pub(super) bodies_waiting: Gauge = "Request bodies waiting for memory";
        pub(super) bodies_refused: Counter = "Request bodies refused with 503 for lack of memory";
    }
}
