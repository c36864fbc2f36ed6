//! Counters of the network between nodes.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

crate::metrics! {
    /// Counts since the start. They are not updated atomically together. Cheap to clone.
    pub struct Counters {
        /// Open connections from other nodes.
        pub connections: Gauge = "Open connections from other nodes";
        /// Bytes received, including encryption.
        pub received_bytes: Counter = "Bytes received from other nodes, in connections and datagrams";
        /// Bytes sent, including encryption.
        pub sent_bytes: Counter = "Bytes sent to other nodes, in connections and datagrams";
        /// Connections accepted.
        pub accepted_connections: Counter = "Connections accepted from other nodes";
        /// Connections refused.
        pub refused_connections: Counter = "Connections refused: another secret or version, not a node, too slow, or too many";
        /// Datagrams rejected.
        pub rejected_datagrams: Counter = "Datagrams rejected: another secret or version, or not from a node";
        /// Datagrams not sent.
        pub unsent_datagrams: Counter = "Datagrams not sent: too long, no route, or no buffer space";
    }
}

impl Counters {
    /// Creates the counters and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        Self::register(registry.sub_registry_with_prefix("net"))
    }
}
