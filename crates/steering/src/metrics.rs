//! Metrics of client steering.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::policy::RedirectKind;

/// The label `kind`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RedirectLabels {
    kind: &'static str,
}

/// Gauges and counters of client steering.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) load_level: Gauge,
    pub(crate) refusing: Gauge,
    redirected: Family<RedirectLabels, Counter>,
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self { load_level: Gauge::default(), refusing: Gauge::default(), redirected: Family::default() };
        let all = metrics.clone();
        let steering = registry.sub_registry_with_prefix("steering");
        steering.register("load_level", "0 idle, 1 busy, 2 very busy, 3 overloaded", all.load_level);
        steering.register("refusing", "1 while new connections may be refused for the load", all.refusing);
        steering.register("redirected", "Clients redirected because of load or shutdown, by kind", all.redirected);
        for kind in [RedirectKind::Suggested, RedirectKind::Refused, RedirectKind::Disconnected] {
            drop(metrics.redirected.get_or_create(&RedirectLabels { kind: kind.name() }));
        }
        metrics
    }

    pub(crate) fn count_redirect(&self, kind: RedirectKind) {
        self.redirected.get_or_create(&RedirectLabels { kind: kind.name() }).inc();
    }
}
