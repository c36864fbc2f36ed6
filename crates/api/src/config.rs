//! What can be set about the HTTP surface.

use std::time::Duration;

use bucksaw_sources::http::{self, BodyLimits};

/// Settings of the HTTP surface.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host names by which clients may call the node, besides `localhost` and all addresses; `*` allows every name.
    pub allowed_hosts: Vec<String>,
    /// Connections at the same time. On further ones only health checks and metrics are answered.
    pub connections_max: usize,
    /// Connections of one address at the same time; of IPv6, of one network of 64 bits.
    pub address_connections_max: usize,
    /// Connections beyond these on which health checks and metrics are answered.
    pub reserved_connections_max: usize,
    /// A client must have sent the head of its request within this time, the next request on a connection included.
    pub header_timeout: Duration,
    /// A client that sends nothing of its body for so long is given up.
    pub body_idle_timeout: Duration,
    /// The greatest record, in bytes; longer ones are cut.
    pub record_bytes_max: usize,
    /// What a compressed body may unpack to, in bytes. A body that is not compressed may be of any length.
    pub unpacked_bytes_max: u64,
    /// Memory of all bodies that are being taken in, in bytes; at least one and a quarter times what one body may need counts. More lets more
    /// slow clients send at the same time; with less, they wait for each other sooner.
    pub bodies_bytes_max: usize,
    /// How long a body waits for that memory before its client is told to come again.
    pub bodies_wait_max: Duration,
    /// Bodies that are worked on at the same time; others wait.
    pub ingests_max: usize,
    /// Queries that are worked on at the same time; others wait a little, and are told to come again. One whose reader is
    /// slow does not count while it waits.
    pub queries_max: usize,
    /// Answers that are being read at the same time, by readers who may be slow. Each has a thread, and some hundreds of
    /// kilobytes on their way, besides what its query holds.
    pub answers_max: usize,
    /// Clients that follow new records at the same time.
    pub tails_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            connections_max: 8_192,
            address_connections_max: 2_048,
            reserved_connections_max: 32,
            header_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_secs(30),
            record_bytes_max: 1 << 20,
            unpacked_bytes_max: 256 << 20,
            bodies_bytes_max: 64 << 20,
            bodies_wait_max: Duration::from_secs(10),
            ingests_max: 32,
            queries_max: 16,
            answers_max: 64,
            tails_max: 256,
        }
    }
}

impl Config {
    /// Memory that one body may need, in bytes. A snappy body may need more, because it is decompressed as a whole.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        http::body_bytes_max(self.record_bytes_max)
    }

    pub(crate) fn body_limits(&self) -> BodyLimits {
        BodyLimits {
            idle_timeout: self.body_idle_timeout,
            record_bytes_max: self.record_bytes_max,
            decompressed_bytes_max: self.unpacked_bytes_max,
            memory_bytes_max: self.bodies_bytes_max,
            memory_wait_max: self.bodies_wait_max,
            workers_max: self.ingests_max,
        }
    }
}
