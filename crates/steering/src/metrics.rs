//! Metrics of client steering.

use bucksaw_env::{MetricLabel, create_series, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::VariantNames as _;

use crate::policy::RedirectKind;

metrics! {
    /// Gauges and counters of client steering.
    pub struct Metrics {
        pub(crate) load_level: Gauge = "0 idle, 1 busy, 2 very busy, 3 overloaded";
        pub(crate) refusing: Gauge = "1 while new connections may be refused for the load";
        redirected: Family<MetricLabel, Counter> = "Clients redirected because of load or shutdown, by kind";
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("steering"));
        create_series(&metrics.redirected, "kind", RedirectKind::VARIANTS.iter().copied());
        metrics
    }

    pub(crate) fn count_redirect(&self, kind: RedirectKind) {
        self.redirected.get_or_create(&[("kind", kind.name())]).inc();
    }
}
