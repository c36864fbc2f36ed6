//! What the HTTP surface counts. Records are counted by the queue, by source.

use bucksaw_sources::http::BodyMetrics;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
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
    /// `Sec-Fetch-Site` says that another site caused the request.
    fetch_site,
}

impl RefusalReason {
    pub(crate) const ALL: [Self; 3] = [Self::host, Self::origin, Self::fetch_site];
}

/// The label `reason` of refused requests.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RefusalLabels {
    pub(crate) reason: RefusalReason,
}

/// Why a connection has no ordinary slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "label values are lower case")]
pub(crate) enum ConnectionLimit {
    /// Its address has as many connections as one address may have.
    address,
    /// All addresses together have as many connections as allowed.
    all,
}

impl ConnectionLimit {
    pub(crate) const ALL: [Self; 2] = [Self::address, Self::all];
}

/// The label `reason` of connections without an ordinary slot.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ConnectionLimitLabels {
    pub(crate) reason: ConnectionLimit,
}

/// Counters and gauges of the HTTP surface.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) bodies: BodyMetrics,
    pub(crate) requests_refused: Family<RefusalLabels, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Family<ConnectionLimitLabels, Counter>,
}

impl Metrics {
    /// Registers the surface's metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let api = registry.sub_registry_with_prefix("api");
        let metrics = Self {
            bodies: BodyMetrics::new(api),
            requests_refused: Family::default(),
            connections: Gauge::default(),
            connections_refused: Family::default(),
        };
        let all = metrics.clone();
        api.register(
            "requests_refused",
            "HTTP requests refused because of a host name that is not allowed, or sent by pages of other origins",
            all.requests_refused,
        );
        api.register("connections", "HTTP connections that are open", all.connections);
        api.register(
            "connections_refused",
            "HTTP connections for which their address, or all addresses, had no slot: only health and metrics were answered",
            all.connections_refused,
        );
        for reason in ConnectionLimit::ALL {
            drop(metrics.connections_refused.get_or_create(&ConnectionLimitLabels { reason }));
        }
        for reason in RefusalReason::ALL {
            drop(metrics.requests_refused.get_or_create(&RefusalLabels { reason }));
        }
        metrics
    }
}
