//! Counts things while they exist.

use prometheus_client::metrics::gauge::Gauge;

/// Adds one to a gauge until it is dropped. A gauge that no registry has is a shared number.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    /// Adds one.
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
