//! Metrics of the HTTP surface. The queue counts records, by source.

use bucksaw_env::metrics;
use bucksaw_sources::http::BodyMetrics;
use prometheus_client::encoding::EncodeLabelValue;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "label values are lower case")]
pub(crate) enum RefusalReason {
    /// `Host` is a name that is not allowed.
    host,
    /// `Origin` is not the origin of the node.
    origin,
    /// `Sec-Fetch-Site` names another site.
    fetch_site,
}

/// The limit that leaves a connection without an ordinary slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "label values are lower case")]
pub(crate) enum ConnectionLimit {
    /// That of its address.
    address,
    /// That of all addresses.
    all,
}

/// Counters by the label `reason`.
type CountersByReason<R> = Family<[(&'static str, R); 1], Counter>;

metrics! {
    /// Counters and gauges of the HTTP surface.
    pub struct Metrics {
        pub(crate) bodies: BodyMetrics;
        requests_refused: CountersByReason<RefusalReason> = "HTTP requests refused because of a host name that is not allowed, or sent by pages of other origins";
        pub(crate) accept_failed: Counter = "HTTP connections that could not be accepted";
        pub(crate) connections: Gauge = "HTTP connections that are open";
        connections_refused: CountersByReason<ConnectionLimit> = "HTTP connections for which their address, or all addresses, had no slot: only health and metrics were answered";
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let api = registry.sub_registry_with_prefix("api");
        let metrics = Self { bodies: BodyMetrics::register(api), ..Self::register(api) };
        // Each series exists from the start, at 0.
        for limit in [ConnectionLimit::address, ConnectionLimit::all] {
            drop(metrics.connections_refused.get_or_create(&[("reason", limit)]));
        }
        for reason in [RefusalReason::host, RefusalReason::origin, RefusalReason::fetch_site] {
            drop(metrics.requests_refused.get_or_create(&[("reason", reason)]));
        }
        metrics
    }

    pub(crate) fn count_refused_request(&self, reason: RefusalReason) {
        self.requests_refused.get_or_create(&[("reason", reason)]).inc();
    }

    pub(crate) fn count_refused_connection(&self, limit: ConnectionLimit) {
        self.connections_refused.get_or_create(&[("reason", limit)]).inc();
    }
}
