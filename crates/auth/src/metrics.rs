//! Metrics of authentication.

use bucksaw_env::metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::AuthRefusalReason;

/// The labels `listener` and `reason`.
type RefusalLabels = [(&'static str, &'static str); 2];

metrics! {
    /// Counters and gauges of authentication.
    pub struct Metrics {
        refused: Family<RefusalLabels, Counter> = "Requests and connections refused for lack of a valid credential, of its scope, or of its tenant";
        pub(crate) file_invalid: Gauge = "1 while the auth file on disk is not valid, so that its last valid version is in use; else 0";
        pub(crate) reloads: Counter = "Changed auth files that were put into use";
        pub(crate) credentials: Gauge = "Tokens, client certificates and groups of the auth file in use";
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        Self::register(registry.sub_registry_with_prefix("auth"))
    }

    pub(crate) fn count_refused(&self, listener: &'static str, reason: AuthRefusalReason) {
        self.refused.get_or_create(&[("listener", listener), ("reason", reason.name())]).inc();
    }
}
