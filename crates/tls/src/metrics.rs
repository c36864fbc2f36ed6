//! Metrics of listeners with TLS.

use bucksaw_env::{MetricLabel, create_series, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

metrics! {
    /// Metrics of all listeners of a process.
    pub struct Metrics {
        handshakes: Family<MetricLabel, Counter> = "TLS handshakes of clients, by result";
        pub(crate) certificate_expiry_seconds: Gauge = "When the first certificate of the listeners expires, in seconds since 1970; 0 without TLS";
        pub(crate) certificate_reloads: Counter = "Changed certificate files that were taken over";
        pub(crate) certificate_reloads_failed: Counter = "Changed certificate files that cannot be used; the previous ones stay in use";
    }
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeResult {
    /// The connection is open.
    Completed,
    /// The client or its certificate was refused, or the client refused the node's.
    Failed,
    /// The client did not complete it in time.
    TimedOut,
    /// The client does not speak TLS.
    NotTls,
    /// The client left the connection before it sent anything.
    Closed,
    /// Newer handshakes took its slot.
    Evicted,
}

impl HandshakeResult {
    const ALL: [Self; 6] = [Self::Completed, Self::Failed, Self::TimedOut, Self::NotTls, Self::Closed, Self::Evicted];

    const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::NotTls => "not_tls",
            Self::Closed => "closed",
            Self::Evicted => "evicted",
        }
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("tls"));
        create_series(&metrics.handshakes, "result", HandshakeResult::ALL.map(HandshakeResult::name));
        metrics
    }

    /// Counts a handshake.
    pub fn count_handshake(&self, result: HandshakeResult) {
        self.handshakes.get_or_create(&[("result", result.name())]).inc();
    }
}
